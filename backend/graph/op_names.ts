/** The names of operations as numbers, which a kernel can report: those of this process. */

const opNames: string[] = [""];

/** A number for the name of an operation, so that a kernel can say which one failed. */
export function opCode(name: string): number {
  const at = opNames.indexOf(name);
  return at >= 0 ? at : opNames.push(name) - 1;
}

/** The name behind a number. */
export function opName(code: number): string {
  return opNames[code] ?? "an operation";
}
