// Search in pages that are opened as files, where browsers refuse workers: the worker's script runs in a hidden frame.
// mkdocs-material asks for a script that does so, at a server's; docs/pages.py names this one in its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise(loaded => {
        const script = this.inner.document.createElement("script")
        script.src = new URL(url, location)
        script.onload = loaded
        this.inner.document.body.append(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
