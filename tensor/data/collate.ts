import type { TypedArray } from "../../backend/internal.ts";
import { requireValue, takes } from "../core/rules/options.ts";
import { emptyLike, type Field, fieldList } from "./dataset.ts";

/**
 * Stacks samples into a batch: every field gets a first axis that counts them.
 *
 * @param samples At least one; their fields have the same shapes and array types.
 * @returns One field a tensor of the batch.
 * @throws {RangeError | TypeError} Where two samples differ; the message names the field.
 */
export function stackSamples(samples: readonly Field[][]): Field[] {
  requireValue("stack", "samples", samples, takes.list);
  for (const sample of samples) requireValue("stack", "a sample", sample, fieldList);
  const [first] = samples;
  if (first === undefined) throw new RangeError("Cannot stack a batch of no samples");
  for (const sample of samples) {
    if (sample.length !== first.length) {
      throw new RangeError(
        `Cannot stack samples of ${first.length} and of ${sample.length} fields: give all the same fields`,
      );
    }
  }
  return first.map((_, position) => stackField(samples.map((sample) => sample[position]!)));
}

function stackField(parts: readonly Field[]): Field {
  const like = parts[0]!;
  const data = emptyLike(like.data, parts.length * like.data.length);
  parts.forEach((part, row) => {
    checkAlike(part, like);
    (data as Float32Array).set(part.data as Float32Array, row * like.data.length);
  });
  return { ...like, data, shape: [parts.length, ...like.shape] };
}

function checkAlike(part: Field, like: Field): void {
  if (part.shape.join() !== like.shape.join() || part.data.length !== like.data.length) {
    throw new RangeError(
      `Cannot stack samples of shape [${like.shape}] and [${part.shape}] ` +
        `(${like.data.length} and ${part.data.length} values): pad them, or give a collate function`,
    );
  }
  const [a, b] = [typeName(like.data), typeName(part.data)];
  if (a !== b || part.dtype !== like.dtype) {
    throw new TypeError(`Cannot stack samples of ${a} and ${b}: a field has one dtype`);
  }
}

function typeName(data: TypedArray<ArrayBufferLike>): string {
  return data.constructor.name;
}
