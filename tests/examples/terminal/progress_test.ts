import { assert, assertEquals, assertMatch } from "@std/assert";
import { replay, textOf } from "../../../examples/tools/gallery/terminal_cells.ts";
import { showBuilds } from "../../../examples/terminal/builds.ts";
import { LiveScreen } from "../../../examples/terminal/live_screen.ts";
import { Progress } from "../../../examples/terminal/progress.ts";
import { beginBuild, endBuild } from "../../../backend/profiling/builds.ts";

/** A screen whose output can be looked at, played on a terminal. */
function recorded(isLive: boolean): { screen: LiveScreen; seen: () => string[] } {
  let written = "";
  const output = {
    writeSync: (bytes: Uint8Array) => {
      written += new TextDecoder().decode(bytes);
      return bytes.length;
    },
  };
  const screen = new LiveScreen({ output, isLive, columns: () => 100 });
  return { screen, seen: () => textOf(replay(written)) };
}

/** Runs a function with a clock that stands still but for what it is told. */
function withClock<T>(fn: (goOn: (ms: number) => void) => T): T {
  const { now } = performance;
  let at = 0;
  performance.now = () => at;
  try {
    return fn((ms) => at += ms);
  } finally {
    performance.now = now;
  }
}

/** Two epochs of four steps, with a look at what the terminal shows in the middle of the second. */
function train(isLive: boolean): { middle: string[]; end: string[] } {
  return withClock((goOn) => trainBy(goOn, isLive));
}

function trainBy(goOn: (ms: number) => void, isLive: boolean): { middle: string[]; end: string[] } {
  const { screen, seen } = recorded(isLive);
  const progress = new Progress({ steps: 8, stepsPerRound: 4, unit: "samples" }, screen);
  let middle: string[] = [];
  for (let step = 1; step <= 8; step++) {
    goOn(150);
    progress.step(2 / step, 10);
    if (step === 6) middle = seen();
    if (step % 4 === 0) progress.endRound({ loss: 3 / step, accuracy: step / 10 });
  }
  progress.end();
  return { middle, end: seen() };
}

Deno.test("Progress: off a terminal training is a line an epoch, with what was unseen beside it", () => {
  const { end } = train(false);
  assertEquals(end.length, 3);
  assertMatch(
    end[0]!,
    /^epoch 1\/2 {2}loss 1\.0417 {2}unseen 0\.7500 {2}accuracy 0\.4000 {2}[\d,]+ samples\/s$/,
  );
  assertMatch(end[1]!, /^epoch 2\/2 {2}loss 0\.3173 {2}unseen 0\.3750 {2}accuracy 0\.8000 /);
});

Deno.test("Progress: on a terminal the rate, the time left and curves are below the epochs", () => {
  const { middle, end } = train(true);
  assertMatch(middle[0]!, /^epoch 1\/2 .* accuracy 0\.4000 /);
  assertMatch(middle[1]!, /^epoch \d\/2 {2}step \d\/4 {2}loss .* samples\/s {2}\d+ s left$/);
  assert(middle.some((row) => row.includes("loss")), middle.join("\n"));
  assertEquals(end.filter((row) => row.startsWith("epoch")).length, 2, "the live line is gone");
  assert(end.some((row) => /━━ training {3}━━ unseen/.test(row)), end.join("\n"));
  assert(end.some((row) => row.includes("accuracy on unseen")), end.join("\n"));
});

Deno.test("Progress: the time left is told from the second step on, without what the first waited for", () =>
  withClock((goOn) => {
    const { screen, seen } = recorded(true);
    const progress = new Progress({ steps: 1000, stepsPerRound: 1000, unit: "samples" }, screen);
    goOn(60_000);
    progress.step(1, 10);
    assertMatch(seen()[0]!, /samples\/s$/);
    goOn(200);
    progress.step(1, 10);
    assertMatch(seen()[0]!, / 3 min left$/, "998 steps of 0.2 s");
  }));

Deno.test("Progress: a first run is told on a terminal what it waits for, and nothing of it stays", () => {
  const { screen, seen } = recorded(true);
  using _builds = showBuilds(screen);
  beginBuild(11);
  endBuild(3);
  assertEquals(seen(), ["building kernels (first run) 3/11"]);
  endBuild(8);
  assertEquals(seen(), [""]);
});

Deno.test("Progress: kernels that are still being built at the end of a program leave no line", () => {
  const { screen, seen } = recorded(true);
  {
    using _builds = showBuilds(screen);
    beginBuild(2);
    screen.print("interrupted");
  }
  assertEquals(seen(), ["interrupted", ""]);
  endBuild(2);
});

Deno.test("Progress: off a terminal a first run is told once, and only when it takes a while", () => {
  const warned: string[] = [];
  const { screen, seen } = recorded(false);
  using _builds = showBuilds(screen, (line) => void warned.push(line), 0);
  using _patient = showBuilds(screen, (line) => void warned.push(line));
  for (let k = 0; k < 3; k++) {
    beginBuild(1);
    endBuild(1);
  }
  assertEquals([warned, seen()], [["building kernels (first run)"], [""]]);
});
