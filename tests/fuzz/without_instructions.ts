/** OpenCL C whose instructions of one vendor any compiler takes: for programs that are built, never run. */

/** Bytes of the operands of such constraints of PTX. */
const bytesOf: Readonly<Record<string, number>> = { r: 4, f: 4, l: 8, h: 2, d: 8 };

/** A text in which each `asm` statement is one that has the same operands, checks their size, sets what it gives. */
export function withoutInstructions(text: string): string {
  const parts: string[] = [];
  let at = 0;
  for (const { index, 0: start } of text.matchAll(/\basm(?: volatile)?\(/g)) {
    if (index < at) continue;
    const end = closing(text, index + start.length);
    parts.push(text.slice(at, index), statement(text.slice(index + start.length, end)));
    at = end + 1;
  }
  return parts.join("") + text.slice(at);
}

/** The place where the parenthesis closes that was opened before `at`. */
function closing(text: string, at: number): number {
  for (let depth = 1;; at++) {
    const c = text[at];
    if (c === undefined) throw new Error("An asm statement does not end");
    if (c === '"') at = text.indexOf('"', at + 1);
    else if (c === "(") depth++;
    else if (c === ")" && --depth === 0) return at;
  }
}

/** The statement for the operands of an `asm`: outputs, inputs and what it changes, by colons. */
function statement(content: string): string {
  const operands = [...operandsOf(content.replaceAll(/\\\n/g, " "))];
  const sizes = operands.flatMap(({ constraint, value }) => {
    const bytes = bytesOf[constraint.at(-1)!];
    return bytes ? [`(void)sizeof(char[sizeof(${value}) == ${bytes} ? 1 : -1]);`] : [];
  });
  const uses = operands.map(({ constraint, value }) =>
    /[=+]/.test(constraint) ? `${value} = 0;` : `(void)(${value});`
  );
  return `do { ${[...sizes, ...uses].join(" ")} } while (0)`;
}

/** The operands: a constraint in quotes, and a value in parentheses. */
function* operandsOf(content: string): Generator<{ constraint: string; value: string }> {
  for (let at = 0;;) {
    const quote = content.indexOf('"', at);
    if (quote < 0) return;
    const end = content.indexOf('"', quote + 1);
    const open = /^\s*\(/.exec(content.slice(end + 1));
    at = end + 1;
    if (open === null) continue;
    const close = closing(content, at += open[0].length);
    yield { constraint: content.slice(quote + 1, end), value: content.slice(at, close) };
    at = close + 1;
  }
}
