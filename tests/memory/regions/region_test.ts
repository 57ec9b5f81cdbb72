import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { Owner } from "../../../memory/fences/owner_table.ts";
import type { Chunk } from "../../../memory/regions/chunk.ts";
import { Region } from "../../../memory/regions/region.ts";

const first = new Owner(0), second = new Owner(1);

/** Requests: an allocation of so many units, or the release of the nth live chunk, by one of two owners. */
const commands = fc.array(
  fc.record({
    allocate: fc.boolean(),
    units: fc.integer({ min: 1, max: 40 }),
    pick: fc.nat(1000),
    owner: fc.constantFrom(first, second),
  }),
  { maxLength: 200 },
);

type Command = (typeof commands) extends fc.Arbitrary<(infer C)[]> ? C : never;

/** Runs requests against a region of two segments; returns where everything went. */
function run(region: Region, requests: readonly Command[], after: (live: Chunk[]) => void) {
  const live: Chunk[] = [];
  const places: string[] = [];
  for (const { allocate, units, pick, owner } of requests) {
    if (allocate) {
      const chunk = region.allocate(units * 256, owner);
      places.push(chunk === null ? "none" : `${chunk.segment.id}:${chunk.offset}`);
      if (chunk !== null) live.push(chunk);
    } else if (live.length > 0) region.free(live.splice(pick % live.length, 1)[0]!, owner);
    after(live);
  }
  return { live, places };
}

function twoSegments(): Region {
  const region = new Region();
  region.grow(100 * 256, first);
  region.grow(60 * 256, second);
  return region;
}

function checkTiling(region: Region, live: readonly Chunk[]): void {
  for (const segment of region.segments()) {
    let end = 0;
    let previous: Chunk | null = null;
    for (const chunk of segment.chunks()) {
      assertEquals(chunk.offset, end, "chunks lie side by side");
      assert(chunk.size > 0, "no chunk is empty");
      assert(chunk.previous === previous, "the links agree");
      assert(
        previous === null || chunk.owner === null || previous.owner !== chunk.owner,
        "free neighbours of one owner are one chunk",
      );
      assertEquals(chunk.owner === null, live.includes(chunk), "exactly the live chunks are held");
      end += chunk.size;
      previous = chunk;
    }
    assertEquals(end, segment.size, "chunks fill the segment");
    assertEquals(segment.live, live.filter((chunk) => chunk.segment === segment).length);
  }
}

Deno.test("Region never overlaps chunks, keeps free neighbours joined and fills its segments", () => {
  fc.assert(fc.property(commands, (requests) => {
    const region = twoSegments();
    run(region, requests, (live) => checkTiling(region, live));
  }));
});

Deno.test("Region gets everything back: one free chunk a segment once one owner has all", () => {
  fc.assert(fc.property(commands, (requests) => {
    const region = twoSegments();
    const { live } = run(region, requests, () => {});
    for (const chunk of live) region.free(chunk, first);
    region.mergeFrom(second, first);
    for (const segment of region.segments()) {
      assertEquals([...segment.chunks()].map(({ size }) => size), [segment.size]);
    }
    assertEquals(region.largestFree, 100 * 256);
    for (const segment of [...region.segments()]) region.shrink(segment);
    assertEquals(region.largestFree, 0);
    assertEquals(region.allocate(256, first), null);
  }));
});

Deno.test("Region gives the same offsets for the same requests", () => {
  fc.assert(fc.property(commands, (requests) => {
    const places = () => run(twoSegments(), requests, () => {}).places;
    assertEquals(places(), places());
  }));
});

Deno.test("Region takes the smallest chunk that is large enough", () => {
  fc.assert(fc.property(commands, fc.integer({ min: 1, max: 40 }), (requests, units) => {
    const region = twoSegments();
    run(region, requests, () => {});
    const free = [...region.segments()].flatMap((segment) => [...segment.chunks()])
      .filter((chunk) => chunk.owner === first && chunk.size >= units * 256);
    const best = Math.min(...free.map(({ size }) => size));
    const chunk = region.allocate(units * 256, first);
    assertEquals(chunk !== null, free.length > 0, "it finds room wherever there is some");
    if (chunk === null) return;
    const rest = chunk.next !== null && chunk.next.owner === first ? chunk.next.size : 0;
    assertEquals(chunk.size + rest, best);
  }));
});

Deno.test("Region with exact sizes divides nothing", () => {
  const region = new Region();
  region.grow(1024, first);
  assertEquals(region.allocate(512, first, true), null);
  assertEquals(region.allocate(1024, first, true)?.size, 1024);
});

Deno.test("Region moves free chunks to another owner and counts their bytes", () => {
  const region = new Region();
  region.grow(1024, first);
  const [a, b] = [region.allocate(256, first)!, region.allocate(256, first)!];
  region.free(a, second);
  assertEquals(region.allocate(256, second)?.offset, 0);
  region.free(a, second);
  region.free(b, first);
  assertEquals(region.mergeFrom(second, first), 256);
  assertEquals(region.hasFree(second), false);
  assertEquals(region.largestFree, 1024);
});

Deno.test("Region refuses a second release and a segment that is in use", () => {
  const region = new Region();
  const segment = region.grow(1024, first);
  const chunk = region.allocate(256, first)!;
  assertThrows(() => region.shrink(segment), RangeError, "1 chunks are held");
  region.free(chunk, first);
  assertThrows(() => region.free(chunk, first), RangeError, "free already");
});
