import { Tensor } from "../../class/tensor.ts";
import type { HostArray } from "./host_array.ts";
import type { LoadOptions } from "./load_options.ts";

/** An open file of tensors: their shapes are known, their values are read when they are asked for. */
export interface TensorSource extends Disposable {
  /** The shapes by name, in the order of the file. */
  readonly tensors: ReadonlyMap<string, { readonly shape: readonly number[] }>;
  /**
   * Reads the values of a tensor.
   *
   * @throws {RangeError} When there is none of that name.
   */
  decode(name: string): Promise<HostArray>;
}

/** Puts a tensor of a file on a device. */
export async function readTensor(
  source: TensorSource,
  name: string,
  options: LoadOptions,
): Promise<Tensor> {
  const { data, ...type } = await source.decode(name);
  return Tensor.fromHost(data, { ...type, ...options });
}

/** Puts all tensors of a file on a device, one after the other, and closes it; all or none. */
export async function loading(
  opening: Promise<TensorSource>,
  options: LoadOptions,
): Promise<Record<string, Tensor>> {
  using source = await opening;
  const tensors = new Map<string, Tensor>();
  try {
    for (const name of source.tensors.keys()) {
      tensors.set(name, await readTensor(source, name, options));
    }
  } catch (error) {
    for (const tensor of tensors.values()) tensor.dispose();
    throw error;
  }
  return Object.fromEntries(tensors);
}
