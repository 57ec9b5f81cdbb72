// Runs a program on a pseudo-terminal, as a user sees it.
import { atTerminal } from "../at_terminal.ts";

/** An answer that is typed when a text appears. */
export interface Reply {
  readonly when: string;
  readonly type: string;
}

/** The output of the program, escape sequences of colour taken out, and how it ended. */
export interface Session {
  readonly screen: string;
  readonly code: number;
  /** The texts that were answered, in order. */
  readonly answered: string[];
}

/**
 * Runs a command on a terminal.
 *
 * @param replies Each is given whenever its text appears anew.
 * @param cwd Where it runs.
 */
export async function onTerminal(
  command: readonly string[],
  replies: readonly Reply[],
  cwd: string,
): Promise<Session> {
  const env = { NO_COLOR: "", FORCE_COLOR: "", TERM: "xterm" };
  const child = atTerminal(command, { cwd, env }).spawn();
  const keyboard = child.stdin.getWriter();
  const answered: string[] = [];
  let written = "", screen = "", seen = 0;
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    written += chunk;
    screen = withoutColors(written); // a sequence may come in two chunks
    for (const { when, type } of replies) {
      const at = screen.indexOf(when, seen);
      if (at < 0) continue;
      seen = at + when.length;
      answered.push(when);
      // Deno throws away what was typed before it had printed its prompt, and a moment longer.
      await new Promise((resolve) => setTimeout(resolve, 200));
      await keyboard.write(new TextEncoder().encode(type));
    }
  }
  const { code } = await child.status;
  await keyboard.close().catch((error) => {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error; // it has ended
  });
  return { screen, code, answered };
}

function withoutColors(text: string): string {
  // deno-lint-ignore no-control-regex -- escape sequences begin with a control character
  return text.replaceAll(/\x1b\[[0-9;?]*[A-Za-z]/g, "");
}
