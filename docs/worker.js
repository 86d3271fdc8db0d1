// Browsers refuse workers to pages that are opened from the disk, and the search runs in one.
// There its script runs in a hidden frame instead, and messages go to and fro as they would.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.listeners = new Set();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.#tell(new MessageEvent("message", { data }));
      const script = this.inner.document.createElement("script");
      script.src = url;
      script.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      this.inner.document.body.append(script);
    }
    #tell(event) {
      if (this.onmessage) this.onmessage(event);
      this.listeners.forEach((listener) => listener(event));
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new MessageEvent("message", { data }));
    }
    addEventListener(kind, listener) {
      if (kind === "message") this.listeners.add(listener);
    }
    removeEventListener(kind, listener) {
      this.listeners.delete(listener);
    }
    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
