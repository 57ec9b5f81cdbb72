/** A browser without a window, driven by the Chrome DevTools Protocol. */
import { browsers, findCommand } from "../suite/needs.ts";

/** The browser of this machine, or null. */
export function findBrowser(): string | null {
  return findCommand(...browsers);
}

interface Message {
  readonly id?: number;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly message: string };
}

/** One page that is open in a browser. */
export class Page implements AsyncDisposable {
  readonly #browser: Deno.ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, (message: Message) => void>();
  #session: string | undefined;
  #sent = 0;

  private constructor(browser: Deno.ChildProcess, profile: string, socket: WebSocket) {
    this.#browser = browser;
    this.#profile = profile;
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const message: Message = JSON.parse(data);
      if (message.id !== undefined) this.#answers.get(message.id)?.(message);
    };
  }

  /** Opens an address and waits until it is loaded. */
  static async open(program: string, address: string): Promise<Page> {
    const profile = await Deno.makeTempDir();
    const browser = new Deno.Command(program, {
      args: [
        ...["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"],
        ...["--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"],
      ],
      stdout: "null",
      stderr: "piped",
    }).spawn();
    let said = "";
    for await (const text of browser.stderr.pipeThrough(new TextDecoderStream())) {
      said += text;
      if (/ws:\S+\s/.test(said)) break;
    }
    const socket = new WebSocket(/ws:\S+/.exec(said)![0]);
    await new Promise((resolve) => socket.onopen = resolve);
    const page = new Page(browser, profile, socket);
    const { targetId } = await page.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await page.send("Target.attachToTarget", { targetId, flatten: true });
    page.#session = sessionId as string;
    await page.send("Page.enable");
    await page.goTo(address);
    return page;
  }

  /** Opens another address and waits until it is loaded. */
  async goTo(address: string): Promise<void> {
    await this.send("Page.navigate", { url: address });
    while (await this.evaluate("document.readyState") !== "complete") await delay(20);
  }

  /** Sends a command of the protocol and waits for its answer. */
  send(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const id = ++this.#sent;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, ({ result, error }) => {
        this.#answers.delete(id);
        if (error) reject(new Error(`${method}: ${error.message}`));
        else resolve(result!);
      });
      this.#socket.send(JSON.stringify({ id, method, params, sessionId: this.#session }));
    });
  }

  /** The value of an expression in the page. */
  async evaluate(expression: string): Promise<unknown> {
    const { result } = await this.send("Runtime.evaluate", { expression, returnByValue: true });
    return (result as { value?: unknown }).value;
  }

  /** Draws with the left button held down, from point to point. */
  async drag(points: readonly (readonly [x: number, y: number])[]): Promise<void> {
    const mouse = (type: string, [x, y]: readonly [number, number], buttons: number) =>
      this.send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons, clickCount: 1 });
    await mouse("mousePressed", points[0]!, 1);
    for (const point of points) await mouse("mouseMoved", point, 1);
    await mouse("mouseReleased", points.at(-1)!, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#socket.onclose = resolve);
    await this.send("Browser.close");
    await closed;
    await this.#browser.stderr.cancel().catch(() => {});
    await this.#browser.status;
    await Deno.remove(this.#profile, { recursive: true });
  }
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
