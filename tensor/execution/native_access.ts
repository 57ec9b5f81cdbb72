/** A tensor's memory for those who enqueue by hand. */
import { finalizer, formatShape } from "../../backend/engine.ts";
import type { BufferHandle, Storage } from "../../memory/mod.ts";
import { giveUpReplay } from "../core/calls.ts";
import type { Tensor } from "../tensor.ts";

/** The values that tensors have lent: they stay where they are until the tensor is disposed of. */
const lent = new WeakMap<object, Storage>();
const forgotten = finalizer<Storage>(
  "memory of a forgotten tensor",
  (storage) => storage.release(),
);

/** The block of a tensor's value, computed and in place before what is enqueued next. */
export function lendBlock(what: string, tensor: Tensor): BufferHandle {
  if (tensor.backend !== "cl") {
    throw new TypeError(
      `Cannot take the ${what} of a tensor of shape ${formatShape(tensor.shape)} on ` +
        `${tensor.device}: it is in the host's memory; move it with to("cl")`,
    );
  }
  giveUpReplay(`it takes the ${what} of a tensor`);
  const storage = tensor.realize().node.storage!;
  if (lent.get(tensor) !== storage) {
    endLoan(tensor);
    lent.set(tensor, storage.retain());
    forgotten.register(tensor, storage, tensor);
  }
  // Copies to the device run beside the kernels: what the caller enqueues waits for them.
  storage.memory.uploads.await(storage.handle);
  return storage.handle as BufferHandle;
}

/** The tensor is disposed of: its memory is its own again. */
export function endLoan(tensor: object): void {
  const storage = lent.get(tensor);
  if (storage === undefined) return;
  lent.delete(tensor);
  forgotten.unregister(tensor);
  storage.release();
}
