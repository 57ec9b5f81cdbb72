/**
 * Runs Perfetto's engine for browsers, whose folder is the worker's name. It takes Node's globals for a
 * reason to refuse, and asks for its WebAssembly by an XMLHttpRequest that blocks.
 */
const folder = new URL(`file://${self.name}`);

class FileRequest {
  response: ArrayBuffer | null = null;
  readonly status = 200;
  #url: URL | null = null;

  open(_method: string, url: string): void {
    this.#url = new URL(url, folder);
  }

  send(): void {
    this.response = Deno.readFileSync(this.#url!).buffer;
  }
}

Reflect.deleteProperty(globalThis, "process");
Object.assign(globalThis, { XMLHttpRequest: FileRequest, importScripts: () => {} });
await import(new URL("engine_bundle.js", folder).href);
(self as unknown as { postMessage(message: string): void }).postMessage("ready");
