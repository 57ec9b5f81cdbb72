/**
 * Reading a compiler's log.
 *
 * @module
 */

const maxLines = 5;

/**
 * The source lines that a log names, each with a line before and after it. Compilers write
 * `<source>:LINE:COLUMN: error`, with a file name of their own.
 */
export function sourceExcerpt(source: string, log: string): string {
  const lines = source.split("\n");
  return errorLines(log).filter((line) => line <= lines.length).slice(0, maxLines)
    .map((line) => excerpt(lines, line)).join("\n");
}

function errorLines(log: string): number[] {
  const found = log.matchAll(/:(\d+):(?:\d+:)?\s*(?:fatal )?error/gi);
  return [...new Set(Array.from(found, (match) => Number(match[1])))].filter((line) => line > 0);
}

function excerpt(lines: readonly string[], line: number): string {
  const first = Math.max(1, line - 1), last = Math.min(lines.length, line + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const number = first + i;
    return `${number === line ? ">" : " "} ${String(number).padStart(4)} | ${lines[number - 1]}`;
  }).join("\n");
}
