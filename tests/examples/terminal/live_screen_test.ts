import { assertEquals } from "@std/assert";
import { replay, textOf } from "../../../examples/tools/gallery/terminal_cells.ts";
import { canRewrite, LiveScreen } from "../../../examples/terminal/live_screen.ts";

/** A screen on a terminal that can be looked at; it takes a few bytes at a time, as a pipe may. */
function terminal(isLive = true, columns = 40): { screen: LiveScreen; seen: () => string[] } {
  const bytes: number[] = [];
  const output = {
    writeSync: (some: Uint8Array) => {
      bytes.push(...some.subarray(0, 7));
      return Math.min(some.length, 7);
    },
  };
  const screen = new LiveScreen({ output, isLive, columns: () => columns });
  return { screen, seen: () => textOf(replay(new TextDecoder().decode(new Uint8Array(bytes)))) };
}

Deno.test("LiveScreen: a block is rewritten in place, and lines that stay come above it", () => {
  const { screen, seen } = terminal();
  screen.show(["one", "two"]);
  assertEquals(seen(), ["one", "two"]);
  screen.show(["three"]);
  assertEquals(seen(), ["three"]);
  screen.print("stays");
  screen.show(["four", "five", "six"]);
  screen.print("stays, too");
  assertEquals(seen(), ["stays", "stays, too", "four", "five", "six"]);
  screen.show([]);
  assertEquals(seen(), ["stays", "stays, too", ""]);
});

Deno.test("LiveScreen: a block that is kept stays, and the next one comes below", () => {
  const { screen, seen } = terminal();
  screen.show(["picture"]);
  screen.keep();
  screen.show(["next"]);
  assertEquals(seen(), ["picture", "next"]);
  screen.keep();
  screen.keep();
  screen.print("end");
  assertEquals(seen(), ["picture", "next", "end", ""]);
});

Deno.test("LiveScreen: a status stands below the block until something else is shown", () => {
  const { screen, seen } = terminal();
  screen.show(["block"]);
  screen.status("building 1/2");
  screen.print("said");
  assertEquals(seen(), ["said", "block", "building 1/2"]);
  screen.show(["block"]);
  assertEquals(seen(), ["said", "block"]);
});

Deno.test("LiveScreen: streamed text is never erased, whatever else is shown meanwhile", () => {
  const { screen, seen } = terminal();
  screen.status("building 1/2");
  screen.stream("Shall I ");
  screen.status("building 2/2");
  screen.stream("compare");
  screen.status("");
  screen.print("interrupted");
  assertEquals(seen(), ["Shall I compare", "interrupted", ""]);
  screen.stream("a line\n");
  screen.status("building");
  assertEquals(seen(), ["Shall I compare", "interrupted", "a line", "building"]);
});

Deno.test("LiveScreen: what is wider than the terminal is cut, as a line that wraps cannot be erased", () => {
  const { screen, seen } = terminal(true, 10);
  screen.show(["\x1b[34m0123456789abc\x1b[39m", "\x1b[34mshort\x1b[39m"]);
  assertEquals(seen(), ["012345678", "short"]);
  screen.show(["x"]);
  assertEquals(seen(), ["x"]);
});

Deno.test("LiveScreen: off a terminal there is no block and no escape sequence", () => {
  const { screen, seen } = terminal(false);
  screen.show(["block"]);
  screen.status("building");
  screen.print("said");
  screen.stream("text\n");
  screen.keep();
  assertEquals(seen(), ["said", "text", ""]);
});

Deno.test("LiveScreen: a reader who leaves, as head does, ends no program", () => {
  let writes = 0;
  const output = {
    writeSync: (): number => {
      writes++;
      throw new Deno.errors.BrokenPipe("gone");
    },
  };
  const screen = new LiveScreen({ output, isLive: false });
  screen.print("one");
  screen.print("two");
  assertEquals(writes, 1);
});

Deno.test("LiveScreen: lines are rewritten on a terminal that is not asked for plain text", () => {
  const canWith = (env: Record<string, string>, isTerminal = true) =>
    canRewrite(isTerminal, (name) => env[name]);
  assertEquals([canWith({}), canWith({ TERM: "xterm", NO_COLOR: "" })], [true, true]);
  assertEquals([canWith({ NO_COLOR: "1" }), canWith({ TERM: "dumb" })], [false, false]);
  assertEquals(canWith({}, false), false);
});
