/** Choices, loops, and lists of values. */
import { Tensor } from "../../../class/tensor.ts";
import { realizeAll } from "../../../execution/realization.ts";
import { type Call, int64s, type Operators, typed } from "../core/call.ts";
import { fromFront } from "../core/places.ts";
import { type OnnxData, Value } from "../core/value.ts";
import { typeNamed } from "../format/types.ts";

/** Reads the condition: which graph runs is known on the host. */
function choose(call: Call): OnnxData[] {
  return call.run(call.graph(call.number(0, 0) !== 0 ? "then_branch" : "else_branch"), []);
}

function truth(value: boolean): Value {
  return Value.ofNumbers(typeNamed("bool"), [], [Number(value)]);
}

function loop(call: Call): OnnxData[] {
  const body = call.graph("body"), most = call.number(0, Infinity);
  let goesOn = call.number(1, 1) !== 0, carried = call.inputs.slice(2);
  const count = carried.length, scans: Value[][] = body.output.slice(1 + count).map(() => []);
  for (let k = 0; k < most && goesOn; k++) {
    const [condition, ...rest] = call.run(body, [int64s([k], []), truth(true), ...carried]);
    carried = rest.slice(0, count);
    // A condition that is read computes what it depends on: stored, it is not computed again next time.
    if (!(condition as Value).isOnHost) realizeAll([condition!, ...carried].flatMap(onDevice));
    goesOn = (condition as Value).numbers()[0] !== 0;
    rest.slice(count).forEach((value, j) => scans[j]!.push(value as Value));
  }
  return [...carried, ...scans.map((parts) => stacked(parts, 0))];
}

function onDevice(value: OnnxData): Tensor[] {
  return value instanceof Value && !value.isOnHost ? [value.tensor] : [];
}

/** Values of all turns; none have the shape of nothing. */
function stacked(parts: readonly Value[], axis: number): Value {
  if (parts.length === 0) return Value.ofNumbers(typeNamed("float32"), [0], []);
  return typed(Tensor.stack(parts.map((part) => part.tensor), axis), parts[0]!.type);
}

/** A loop over the elements of some inputs along an axis. */
function scan(call: Call): OnnxData[] {
  const body = call.graph("body"), width = call.int("num_scan_inputs", 1);
  const isOld = call.opset < 9, given = call.inputs.slice(isOld ? 1 : 0) as Value[];
  if (isOld) return oldScan(call, given, width);
  const states = given.slice(0, given.length - width), inputs = given.slice(-width);
  const { last, scans } = turns(call, states, inputs, {
    axes: call.ints("scan_input_axes"),
    isBack: call.ints("scan_input_directions"),
  });
  const axes = call.ints("scan_output_axes"), isBack = call.ints("scan_output_directions");
  const count = body.output.length - states.length;
  const outputs = Array.from({ length: count }, (_, k) => {
    const parts = scans.map((values) => values[k]!), axis = axes?.[k] ?? 0;
    const ordered = isBack?.[k] === 1 ? parts.reverse() : parts;
    return stacked(ordered, fromFront(axis, ordered[0]!.shape.length + 1));
  });
  return [...last, ...outputs];
}

function turns(
  call: Call,
  states: OnnxData[],
  inputs: readonly Value[],
  { axes, isBack }: { axes?: number[] | undefined; isBack?: number[] | undefined },
) {
  const scans: Value[][] = [], count = states.length;
  const axisOf = (k: number) => {
    const axis = axes?.[k] ?? 0;
    return fromFront(axis, inputs[k]!.shape.length);
  };
  const length = inputs[0]?.shape[axisOf(0)] ?? 0;
  let last = states;
  for (let turn = 0; turn < length; turn++) {
    const parts = inputs.map(({ tensor, type }, k) => {
      const at = isBack?.[k] === 1 ? length - 1 - turn : turn, axis = axisOf(k);
      return typed(tensor.slice(...tensor.shape.map((_, a) => a === axis ? at : null)), type);
    });
    const values = call.run(call.graph("body"), [...last, ...parts]);
    last = values.slice(0, count);
    scans.push(values.slice(count) as Value[]);
  }
  return { last, scans };
}

/** Version 8: with an axis of batches in front, and the lengths of sequences, which are all whole here. */
function oldScan(call: Call, given: readonly Value[], width: number): OnnxData[] {
  const batch = given[0]!.shape[0]!;
  const each = Array.from({ length: batch }, (_, n) => {
    const own = given.map(({ tensor, type }) => typed(tensor.slice(n), type));
    const { last, scans } = turns(call, own.slice(0, own.length - width), own.slice(-width), {});
    const count = scans[0]?.length ?? 0;
    const outputs = Array.from({ length: count }, (_, k) => stacked(scans.map((v) => v[k]!), 0));
    return [...last as Value[], ...outputs];
  });
  return each[0]!.map((_, k) => stacked(each.map((values) => values[k]!), 0));
}

function place(call: Call, input: number, length: number, fallback: number): number {
  return fromFront(call.number(input, fallback), length);
}

function splitToSequence(call: Call): OnnxData {
  const { tensor, type, shape } = call.value(0), given = call.int("axis", 0);
  const axis = fromFront(given, shape.length), n = shape[axis]!;
  const split = call.has(1) ? call.value(1) : null, numbers = split?.numbers() ?? [1];
  const isList = split !== null && split.shape.length === 1;
  const sizes = isList
    ? numbers
    : Array.from({ length: Math.ceil(n / numbers[0]!) }, (_, k) =>
      Math.min(numbers[0]!, n - k * numbers[0]!));
  const keeps = split !== null || call.int("keepdims", 1) === 1;
  return tensor.split(sizes, axis).map((part) => typed(keeps ? part : part.squeeze(axis), type));
}

/** Choices, loops and lists, by their kinds. */
export const control: Operators = {
  If: choose,
  Loop: loop,
  Scan: scan,
  SequenceEmpty: () => [[]],
  SequenceConstruct: (call) => [call.inputs.slice()],
  SequenceInsert: (call) => {
    const list = call.list(0).slice();
    list.splice(place(call, 2, list.length, list.length), 0, call.inputs[1]!);
    return [list];
  },
  SequenceErase: (call) => {
    const list = call.list(0).slice();
    list.splice(place(call, 1, list.length, list.length - 1), 1);
    return [list];
  },
  SequenceAt: (call) => {
    const list = call.list(0), at = place(call, 1, list.length, 0);
    if (at >= 0 && at < list.length) return [list[at]!];
    throw new RangeError(`a sequence of ${list.length} has no place ${at}`);
  },
  SequenceLength: (call) => int64s([call.list(0).length], []),
  SplitToSequence: (call) => [splitToSequence(call)],
  ConcatFromSequence: (call) => {
    const parts = call.list(0) as Value[], axis = call.int("axis", 0);
    const tensors = parts.map((part) => part.tensor);
    const isNew = call.int("new_axis", 0) === 1;
    return typed(
      isNew ? Tensor.stack(tensors, axis) : Tensor.concat(tensors, axis),
      parts[0]!.type,
    );
  },
  SequenceMap: (call) => {
    const body = call.graph("body"), lists = call.inputs;
    const each = call.list(0).map((_, k) =>
      call.run(body, lists.map((list) => Array.isArray(list) ? list[k]! : list))
    );
    return body.output.map((_, k) => each.map((values) => values[k]!));
  },
  Optional: (call) => [call.inputs[0] ?? null],
  OptionalHasElement: (call) => truth(call.has(0)),
  OptionalGetElement: (call) => [call.inputs[0] ?? null],
};
