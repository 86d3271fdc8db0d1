"""Files: links, pipes and devices are written as people expect, and faults said before any work."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import joblib
import pytest
from command_line import fail, run


def test_a_link_is_followed_and_the_mode_kept(people: Path, model: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real.name)
    run("predict", model, people, "--out", link)
    assert link.is_symlink()
    assert len(real.read_text().splitlines()) == 401
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.csv", "real.csv"]


def test_a_link_to_nothing_yet_is_followed(people: Path, tmp_path: Path) -> None:
    link, page = tmp_path / "link.joblib", tmp_path / "page.html"
    link.symlink_to(tmp_path / "new" / "model.joblib")
    page.symlink_to(tmp_path / "pages" / "page.html")
    words = ("fit", people, "-t", "income", "-d", "region", "--gamma", 0.1, "-q")
    run(*words, "--out", link, "--report", page)
    assert link.is_symlink()
    assert page.is_symlink()
    assert joblib.load(tmp_path / "new" / "model.joblib").target == "income"
    assert (tmp_path / "pages" / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
def test_a_pipe_is_written_into(people: Path, model: Path, tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # 64 kB fit in without a reader at work
    with os.fdopen(reader) as file:
        run("predict", model, people, "--out", pipe)
        assert file.read() == run("predict", model, people)
    assert pipe.is_fifo()


def test_redirected_output_is_written_into(people: Path, model: Path, tmp_path: Path) -> None:
    shown, link = tmp_path / "shown.txt", tmp_path / "link.csv"
    shown.write_text("before\n")
    link.symlink_to("/dev/stdout")  # so that an error does no harm to /dev
    command = Path(sys.executable).with_name("anymix")
    with shown.open("a") as file:
        subprocess.run([command, "predict", model, people, "--out", link], stdout=file, check=True)
    assert shown.read_text() == "before\n" + run("predict", model, people)
    assert link.is_symlink()


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "none.csv", "-t", "y", "-d", "d", "--out", "{}"),
        ("fit", "none.csv", "-t", "y", "-d", "d", "--out", "{folder}/m.joblib", "--report", "{}"),
        ("predict", "none.joblib", "none.csv", "--out", "{}"),
        ("audit", "none.csv", "-t", "y", "-p", "p", "-d", "d", "--report", "{}"),
        ("demo", "--out", "{}"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_work(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "below" / "p.csv"
    code, error = fail(monkeypatch, capsys, *(w.format(path, folder=tmp_path) for w in words))
    assert code == 1
    option = [word for word in words if word.startswith("--")][-1]
    assert error.startswith(f"error: {option} is '{path}")
    assert f"nothing can be written to '{tmp_path / 'file'}' (it is a file); give" in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_read_only_is_said_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("predict", "none.joblib", "none.csv", "--out")
    with tempfile.TemporaryDirectory() as name:
        folder, user = Path(name), os.geteuid()
        (folder / "p.csv").touch(mode=0o444)
        folder.chmod(0o555)
        try:
            os.seteuid(user or 65534)  # to root nothing is read-only
            here = fail(monkeypatch, capsys, *words, folder / "p.csv")[1]
            below = fail(monkeypatch, capsys, *words, folder / "new" / "p.csv")[1]
        finally:
            os.seteuid(user)
            folder.chmod(0o755)
    assert "which is read-only" in here
    assert f"nothing can be written to '{folder}' (Permission denied)" in below


def test_a_folder_of_the_reports_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.html").mkdir()
    code, error = fail(monkeypatch, capsys, "demo", "--out", tmp_path)
    assert code == 1
    assert f"'{tmp_path / 'report.html'}', which is a folder; name a file" in error


def test_no_file_is_written_over_another(
    people: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, link = tmp_path / "table.csv", tmp_path / "link.csv"
    table.write_bytes(people.read_bytes())
    link.symlink_to(table)
    (tmp_path / "set.json").write_text('{"north": 1}')
    fitted = ("fit", table, "-t", "income", "-d", "region")
    audited = ("audit", table, "-t", "income", "-p", "x", "-d", "region", "--report")
    new = tmp_path / "new"
    for words, message in (
        ((*fitted, "--out", new, "--report", new), f"--report is '{new}', which --out names too"),
        ((*fitted, "--out", new, "--report", tmp_path / "." / "new"), "which --out names too"),
        ((*fitted, "--out", table), f"--out is '{table}', which is also read; give another path"),
        ((*fitted, "--report", link), f"--report is '{link}', which is also read"),
        (("fit", people, *fitted[2:], "--test", table, "--out", table), "also read"),
        ((*fitted, "--mixtures", tmp_path / "set.json", "--out", tmp_path / "set.json"), "read"),
        (("predict", model, table, "--out", link), f"--out is '{link}', which is also read"),
        (("predict", model, table, "--out", model), f"--out is '{model}', which is also read"),
        ((*audited, table), f"--report is '{table}', which is also read"),
        (
            (*audited, tmp_path / "set.html", "--mixtures", tmp_path / "set.json"),
            f"the JSON beside --report is '{tmp_path / 'set.json'}', which is also read",
        ),
    ):
        code, error = fail(monkeypatch, capsys, *words)
        assert code == 1
        assert message in error
    assert table.read_bytes() == people.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.csv", "set.json", "table.csv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "none", "none.csv", "--out", "p.parquet"), "needs pyarrow; pip install"),
        (("fit", "none.csv", "-t", "y", "-d", "d", "--report", "r.html"), "needs jinja2; pip"),
        (("audit", "none.csv", "-d", "d", "--report", "r.html"), "needs jinja2; pip"),
    ],
)
def test_what_is_not_installed_is_said_before_any_work(
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("anymix.cli.files.find_spec", lambda name: None)
    code, error = fail(monkeypatch, capsys, *words)
    assert code == 1
    assert message in error
