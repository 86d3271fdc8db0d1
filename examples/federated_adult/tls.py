"""TLS and node authentication on one machine: who has no registered key stays outside.

    python examples/federated_adult/tls.py

makes a certificate authority, a server certificate and a key for every node in a temporary folder,
starts a SuperLink that speaks only TLS and knows two keys, and two SuperNodes that hold them.
Others try their luck: with a key that is not registered, without a key, without the certificate
authority, and in plain text. They are refused; then the app runs over the two that belong.
"""

import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from anymix.flower.processes import flower_env, free_port, running, script, wait_for_port

HERE = Path(__file__).parent


def make_certificates(folder: Path) -> None:
    """ca.crt, and server.pem with server.key that it vouches for, as 127.0.0.1."""
    request = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    (folder / "names.txt").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    sign = "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30"
    for command in (
        [*request, "-x509", "-days", "30", "-keyout", "ca.key", "-out", "ca.crt"],
        [*request, "-keyout", "server.key", "-out", "server.csr"],
        [*sign.split(), "-extfile", "names.txt", "-out", "server.pem"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def make_key(folder: Path, name: str) -> str:
    """A key pair `name`, `name.pub`; the path of the private one."""
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", "", "-f", name]
    subprocess.run(command, cwd=folder, check=True)
    return str(folder / name)


def reason(log: Path) -> str:
    """What a node that gave up says about it."""
    lines = log.read_text().splitlines()
    failed = [k for k, line in enumerate(lines) if line.startswith("Failed to initialize")]
    return lines[failed[0] + 1] if failed else "no connection"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="anymix-") as name, ExitStack() as processes:
        folder, port = Path(name), free_port()
        env, address, ca = flower_env(folder), f"127.0.0.1:{port}", str(folder / "ca.crt")
        make_certificates(folder)
        (folder / "config.toml").write_text(
            f'[superlink.tls]\naddress = "{address}"\nroot-certificates = "{ca}"\n'
        )

        def flwr(*arguments: str) -> str:
            command = [script("flwr"), *arguments]
            done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            return done.stdout

        def node(label: str, *options: str) -> subprocess.Popen[bytes]:
            where = ["--superlink", address, "--host", "127.0.0.1", "--port", str(free_port())]
            command = ["flower-supernode", *where, "--max-retries", "3", *options]
            return processes.enter_context(running(command, env, folder / f"{label}.log"))

        secure = ["--ssl-ca-certfile", ca, "--ssl-certfile", str(folder / "server.pem")]
        secure += ["--ssl-keyfile", str(folder / "server.key"), "--enable-supernode-auth"]
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(port), *secure]
        command += ["--disable-runtime-dependency-installation"]
        log = folder / "superlink.log"
        wait_for_port(port, processes.enter_context(running(command, env, log)), log)

        tls = ["--root-certificates", ca]
        for i in range(2):
            key = make_key(folder, f"node{i}")
            flwr("supernode", "register", f"{key}.pub", "tls")
            mine = ["--auth-supernode-private-key", key, "--node-config", f"partition-id={i}"]
            node(f"node{i}", *tls, *mine)
        stranger = ["--auth-supernode-private-key", make_key(folder, "stranger")]
        others = {
            "unregistered": node("unregistered", *tls, *stranger),
            "without-key": node("without-key", *tls),
            "without-authority": node("without-authority", *stranger),
            "plain-text": node("plain-text", "--insecure"),
        }
        for label, process in others.items():
            process.wait(timeout=300)
            print(f"refused: {label}: {reason(folder / f'{label}.log')}", flush=True)

        out = folder / "result.json"
        flwr("run", str(HERE), "tls", "--stream", "-c", f'num-clients=2 out="{out}"')
        listed = json.loads(flwr("supernode", "list", "tls", "--format", "json"))
        online = [one for one in listed["nodes"] if one["status"] == "online"]
        print(f"nodes online: {len(online)} of {len(listed['nodes'])} registered")
        result = json.loads(out.read_text())
        print(f"objective {result['objective']:.9f}, gap {result['gap']:.1e}")


if __name__ == "__main__":
    main()
