/** One line of the doctor's report. */
export interface Finding {
  /** What was looked at. */
  readonly subject: string;
  /** What was found. */
  readonly found: string;
  /** What to do about it; good where it is left out. */
  readonly remedy?: string;
}

/** The report as text: each line says good, or what to do. */
export function format(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ subject }) => subject.length));
  return findings.map(({ subject, found, remedy }) => {
    const head = `${remedy ? "todo" : "good"}  ${subject.padEnd(width)}  `;
    const indent = " ".repeat(head.length);
    const lines = remedy ? `${found}\n${remedy}` : found;
    return head + lines.replaceAll("\n", `\n${indent}`);
  }).join("\n");
}
