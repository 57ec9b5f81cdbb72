import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type Chunk, HELD, Region } from "../../memory/regions/region.ts";

/** Requests: an allocation of so many units, or the release of the nth live chunk, by one of two owners. */
const commands = fc.array(
  fc.record({
    allocate: fc.boolean(),
    units: fc.integer({ min: 1, max: 40 }),
    pick: fc.nat(1000),
    owner: fc.integer({ min: 0, max: 1 }),
  }),
  { maxLength: 200 },
);

type Command = (typeof commands) extends fc.Arbitrary<(infer C)[]> ? C : never;

/** Runs requests against a region of two spans; returns where everything went. */
function run(region: Region, requests: readonly Command[], after: (live: Chunk[]) => void) {
  const live: Chunk[] = [];
  const places: string[] = [];
  for (const { allocate, units, pick, owner } of requests) {
    if (allocate) {
      const chunk = region.allocate(units * 256, owner);
      places.push(chunk === null ? "none" : `${chunk.span.id}:${chunk.offset}`);
      if (chunk !== null) live.push(chunk);
    } else if (live.length > 0) region.free(live.splice(pick % live.length, 1)[0]!, owner);
    after(live);
  }
  return { live, places };
}

function twoSpans(): Region {
  const region = new Region();
  region.grow(100 * 256, 0);
  region.grow(60 * 256, 1);
  return region;
}

function checkTiling(region: Region, live: readonly Chunk[]): void {
  for (const span of region.spans()) {
    let end = 0;
    let previous: Chunk | null = null;
    for (const chunk of span.chunks()) {
      assertEquals(chunk.offset, end, "chunks lie side by side");
      assert(chunk.size > 0, "no chunk is empty");
      assert(chunk.previous === previous, "the links agree");
      assert(
        previous === null || chunk.owner === HELD || previous.owner !== chunk.owner,
        "free neighbours of one owner are one chunk",
      );
      assertEquals(chunk.owner === HELD, live.includes(chunk), "exactly the live chunks are held");
      end += chunk.size;
      previous = chunk;
    }
    assertEquals(end, span.size, "chunks fill the span");
    assertEquals(span.live, live.filter((chunk) => chunk.span === span).length);
  }
}

Deno.test("Region never overlaps chunks, keeps free neighbours joined and fills its spans", () => {
  fc.assert(fc.property(commands, (requests) => {
    const region = twoSpans();
    run(region, requests, (live) => checkTiling(region, live));
  }));
});

Deno.test("Region gets everything back: one free chunk a span once one owner has all", () => {
  fc.assert(fc.property(commands, (requests) => {
    const region = twoSpans();
    const { live } = run(region, requests, () => {});
    for (const chunk of live) region.free(chunk, 0);
    region.adopt(1, 0);
    for (const span of region.spans()) {
      assertEquals([...span.chunks()].map(({ size }) => size), [span.size]);
    }
    assertEquals(region.largestFree, 100 * 256);
    for (const span of [...region.spans()]) region.shrink(span);
    assertEquals(region.largestFree, 0);
    assertEquals(region.allocate(256), null);
  }));
});

Deno.test("Region gives the same offsets for the same requests", () => {
  fc.assert(fc.property(commands, (requests) => {
    const places = () => run(twoSpans(), requests, () => {}).places;
    assertEquals(places(), places());
  }));
});

Deno.test("Region takes the smallest chunk that is large enough", () => {
  fc.assert(fc.property(commands, fc.integer({ min: 1, max: 40 }), (requests, units) => {
    const region = twoSpans();
    run(region, requests, () => {});
    const free = [...region.spans()].flatMap((span) => [...span.chunks()])
      .filter((chunk) => chunk.owner === 0 && chunk.size >= units * 256);
    const best = Math.min(...free.map(({ size }) => size));
    const chunk = region.allocate(units * 256, 0);
    assertEquals(chunk !== null, free.length > 0, "it finds room wherever there is some");
    if (chunk === null) return;
    const rest = chunk.next !== null && chunk.next.owner === 0 ? chunk.next.size : 0;
    assertEquals(chunk.size + rest, best);
  }));
});

Deno.test("Region with exact sizes divides nothing", () => {
  const region = new Region();
  region.grow(1024);
  assertEquals(region.allocate(512, 0, true), null);
  assertEquals(region.allocate(1024, 0, true)?.size, 1024);
});

Deno.test("Region moves free chunks to another owner and counts their bytes", () => {
  const region = new Region();
  region.grow(1024);
  const [a, b] = [region.allocate(256)!, region.allocate(256)!];
  region.free(a, 1);
  assertEquals(region.allocate(256, 1)?.offset, 0);
  region.free(a, 1);
  region.free(b, 0);
  assertEquals(region.adopt(1, 0), 256);
  assertEquals(region.hasFree(1), false);
  assertEquals(region.largestFree, 1024);
});

Deno.test("Region refuses a second release and a span that is in use", () => {
  const region = new Region();
  const span = region.grow(1024);
  const chunk = region.allocate(256)!;
  assertThrows(() => region.shrink(span), RangeError, "1 chunks are held");
  region.free(chunk);
  assertThrows(() => region.free(chunk), RangeError, "free already");
});
