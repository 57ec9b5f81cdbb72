/** A writer of bytes, such as `Deno.stdout`. */
export interface Output {
  writeSync(bytes: Uint8Array): number;
}

/** The terminal or file that a screen writes to, and its powers. */
export interface ScreenOptions {
  readonly output?: Output;
  /** True where lines can be rewritten in place. */
  readonly isLive?: boolean;
  /** The width of a line: a longer one would wrap. */
  readonly columns?: () => number;
}

/** Escape sequences of colours. */
// deno-lint-ignore no-control-regex -- escape sequences begin with a control character
const colours = /\x1b\[[0-9;]*m/g;

/**
 * The end of a program's output: lines that stay, and below them a block that is rewritten in place,
 * on a terminal. Elsewhere, and where NO_COLOR or TERM=dumb asks for plain text, the block is never
 * written: what stays must tell enough.
 */
export class LiveScreen {
  /** True while the block is shown. */
  readonly isLive: boolean;
  readonly #output: Output;
  readonly #columns: () => number;
  #block: readonly string[] = [];
  #status = "";
  /** Lines of the block that stand on the terminal now. */
  #drawn = 0;
  /** True while streamed text stands before the cursor. */
  #isWithinLine = false;
  /** True once nobody reads any more. */
  #isLeft = false;

  constructor(
    {
      output = Deno.stdout,
      isLive = canRewrite(Deno.stdout.isTerminal(), readableEnv),
      columns = width,
    }: ScreenOptions = {},
  ) {
    this.#output = output;
    this.isLive = isLive;
    this.#columns = columns;
  }

  /** Writes a line that stays, above the block. */
  print(text: string): void {
    this.#write(`${this.#isWithinLine ? "\n" : this.#erased()}${text}\n`);
    this.#isWithinLine = false;
    this.#draw();
  }

  /** Shows other lines in the block; a status is over then. */
  show(block: readonly string[]): void {
    this.#block = block;
    this.#status = "";
    this.#draw();
  }

  /** Shows a line below the block until something else is shown; none where it is empty. */
  status(text: string): void {
    this.#status = text;
    this.#draw();
  }

  /** Writes on, without a new line: text that comes bit by bit. Until its line ends there is no block. */
  stream(text: string): void {
    this.#write(`${this.#erased()}${text}`);
    this.#isWithinLine = !text.endsWith("\n");
  }

  /** Leaves the block where it is; what is written next comes below. */
  keep(): void {
    this.#status = "";
    this.#draw();
    if (this.#drawn > 0) this.#write("\n");
    this.#block = [];
    this.#drawn = 0;
  }

  /** Escape sequence that takes the block off the terminal. */
  #erased(): string {
    if (this.#drawn === 0) return "";
    const up = this.#drawn > 1 ? `\x1b[${this.#drawn - 1}A` : "";
    this.#drawn = 0;
    return `\r${up}\x1b[J`;
  }

  #draw(): void {
    if (!this.isLive || this.#isWithinLine) return;
    const lines = this.#status === "" ? this.#block : [...this.#block, this.#status];
    const columns = this.#columns() - 1; // a full line wraps on some terminals
    const text = `${this.#erased()}${lines.map((line) => cut(line, columns)).join("\n")}`;
    this.#drawn = lines.length;
    if (text !== "") this.#write(text);
  }

  /** Readers may leave, as `head` does: then nothing is written any more, as console.log does it. */
  #write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    try {
      for (let at = 0; at < bytes.length && !this.#isLeft;) {
        at += this.#output.writeSync(bytes.subarray(at));
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      this.#isLeft = true;
    }
  }
}

/** The screen of the program. */
export const screen: LiveScreen = new LiveScreen();

/**
 * True if lines can be rewritten in place where a program writes.
 *
 * @param isTerminal Whether it writes to a terminal.
 * @param env The environment, as far as it may be read.
 */
export function canRewrite(
  isTerminal: boolean,
  env: (name: string) => string | undefined,
): boolean {
  return isTerminal && (env("NO_COLOR") ?? "") === "" && env("TERM") !== "dumb";
}

function readableEnv(name: string): string | undefined {
  const { state } = Deno.permissions.querySync({ name: "env", variable: name });
  return state === "granted" ? Deno.env.get(name) : undefined;
}

/** Some pseudo-terminals do not know how wide they are. */
function width(): number {
  const { columns } = Deno.consoleSize();
  return columns > 1 ? columns : 80;
}

/** A line that fits; one with colours is cut without them. */
function cut(line: string, columns: number): string {
  const plain = line.replaceAll(colours, "");
  return [...plain].length <= columns ? line : [...plain].slice(0, columns).join("");
}
