// Pages opened from a folder may not start workers, and the search is one: run it in a hidden frame instead.
// Nothing is loaded from elsewhere. (The theme looks for "iframe-worker" in this file's name.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(source) {
      super();
      const url = new URL(source, document.baseURI);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((done) => {
        frame.addEventListener("load", () => done(this.prepare(frame.contentWindow, url)), { once: true });
      });
      document.body.append(frame);
    }

    // Give the frame what a worker has: messages to the page, and scripts.
    async prepare(scope, url) {
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (source) =>
        new Promise((done, fail) => {
          const script = scope.document.createElement("script");
          Object.assign(script, { src: new URL(source, url), onload: done, onerror: fail });
          scope.document.body.append(script);
        });
      scope.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      await load(url);
      return scope;
    }

    postMessage(data) {
      this.ready.then((scope) => scope.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
