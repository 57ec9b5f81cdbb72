/**
 * Reading a compiler's log.
 *
 * @module
 */

const maxLines = 5;

/** The source lines that a log names in errors, each with a line before and after it. */
export function sourceExcerpt(source: string, log: string): string {
  const lines = source.split("\n");
  return errorLines(log).filter((line) => line <= lines.length).slice(0, maxLines)
    .map((line) => excerpt(lines, line)).join("\n");
}

/** Clang writes `<source>:LINE:COLUMN: error: ...`, PoCL `error: FILE:LINE:COLUMN: ...`. */
function errorLines(log: string): number[] {
  const messages = log.split("\n").filter((line) => /error/i.test(line));
  const lines = messages.map((message) => Number(/:(\d+):\d+:/.exec(message)?.[1] ?? 0));
  return [...new Set(lines)].filter((line) => line > 0);
}

function excerpt(lines: readonly string[], line: number): string {
  const first = Math.max(1, line - 1), last = Math.min(lines.length, line + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const number = first + i;
    return `${number === line ? ">" : " "} ${String(number).padStart(4)} | ${lines[number - 1]}`;
  }).join("\n");
}
