/** A character of a terminal. */
export interface Cell {
  readonly text: string;
  /** The number of its colour, such as 34 for blue; 39 is the usual one. */
  readonly colour: number;
  readonly isBold: boolean;
}

const blank: Cell = { text: " ", colour: 39, isBold: false };
/** An escape sequence, or one character. */
// deno-lint-ignore no-control-regex -- escape sequences begin with a control character
const parts = /\x1b\[([0-9;?]*)([A-Za-z])|[^]/gu;

/**
 * Plays what a program wrote to a terminal; gives the rows that stand there in the end.
 *
 * @param columns Where lines wrap.
 */
export function replay(output: string, columns = Infinity): Cell[][] {
  const terminal = new Terminal(columns);
  for (const [text, numbers, command] of output.matchAll(parts)) {
    if (command === undefined) terminal.type(text);
    else terminal.obey(command, numbers!.replace("?", "").split(";").map(Number));
  }
  return terminal.rows;
}

/** The text of rows, without what ends them. */
export function textOf(rows: readonly (readonly Cell[])[]): string[] {
  return rows.map((row) => row.map(({ text }) => text).join("").trimEnd());
}

/** The part of a terminal that programs here use: new lines, moves up, erasing, colours. */
class Terminal {
  readonly rows: Cell[][] = [[]];
  readonly #columns: number;
  #x = 0;
  #y = 0;
  #colour = 39;
  #isBold = false;

  constructor(columns: number) {
    this.#columns = columns;
  }

  type(character: string): void {
    if (character === "\r") this.#x = 0;
    else if (character === "\n") this.#newLine();
    else {
      if (this.#x === this.#columns) this.#newLine();
      const row = this.rows[this.#y]!;
      while (row.length < this.#x) row.push(blank);
      row[this.#x++] = { text: character, colour: this.#colour, isBold: this.#isBold };
    }
  }

  #newLine(): void {
    this.#y++;
    this.#x = 0;
    while (this.rows.length <= this.#y) this.rows.push([]);
  }

  /** @throws RangeError for a command that it does not know. */
  obey(command: string, numbers: readonly number[]): void {
    if (command === "m") return numbers.forEach((number) => this.#style(number));
    if (command === "A") this.#y = Math.max(this.#y - (numbers[0] || 1), 0);
    else if (command === "G") this.#x = Math.max((numbers[0] || 1) - 1, 0);
    else if (command === "h" || command === "l") return; // how the cursor looks
    else if (command === "J" || command === "K") this.#erase(command === "J");
    else throw new RangeError(`Cannot replay ESC[${numbers.join(";")}${command}: it is not known`);
  }

  /** Clears the cells right of the cursor, and those below. */
  #erase(isAlsoBelow: boolean): void {
    this.rows[this.#y]!.splice(this.#x);
    if (isAlsoBelow) this.rows.splice(this.#y + 1);
  }

  #style(number: number): void {
    if (number === 0 || number === 39) this.#colour = 39;
    if (number === 0 || number === 22) this.#isBold = false;
    if (number === 1) this.#isBold = true;
    if (number >= 30 && number < 38) this.#colour = number;
  }
}
