import { profiler } from "@netcl/netcl";
import { type LiveScreen, screen as programs } from "./live_screen.ts";

/**
 * Says, until the result is disposed of, that kernels are being built: on a terminal in a line that
 * disappears again, elsewhere once, when it has taken a while. Where a cache has them, nothing is said.
 *
 * @param warn Gets the line that is said once.
 * @param patience Milliseconds that building may take before it is said.
 */
export function showBuilds(
  screen: LiveScreen = programs,
  warn: (line: string) => void = console.error,
  patience = 1000,
): Disposable {
  let start: number | null = null, hasWarned = false;
  const watching = profiler.onBuild(({ wanted, built }) => {
    start ??= performance.now();
    const text = "building kernels (first run)";
    screen.status(built < wanted ? `${text} ${built}/${wanted}` : "");
    if (screen.isLive || hasWarned || performance.now() - start < patience) return;
    hasWarned = true;
    warn(text);
  });
  return {
    [Symbol.dispose]: () => {
      watching[Symbol.dispose]();
      screen.status("");
    },
  };
}
