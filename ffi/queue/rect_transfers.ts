/**
 * Commands that move boxes of bytes.
 *
 * @module
 */
import type { Buffer } from "../memory/buffer.ts";
import type { EnqueueTarget } from "../events/enqueue_target.ts";
import { requireObject } from "../objects/object.ts";
import { type Event, takeEvent } from "../events/event.ts";
import { eventList, eventOut, listEvents } from "../events/event_list.ts";
import { cl } from "../library/library.ts";
import {
  type RectCopyOptions,
  rectCopyRules,
  type RectOptions,
  rectRules,
} from "./queue_options.ts";
import { checkRect, corner, pitches, type RectLayout, triple, unpack } from "../memory/rect.ts";
import type { OpenCLSymbols } from "../library/symbols.ts";
import {
  driverMemory,
  mayUseDirectly,
  transfer,
  transferable,
  upload,
} from "../events/transfers.ts";
import { checkOptions } from "../host/options.ts";

/** Copies a box of an array into a box of a buffer. */
export function writeRect(
  queue: EnqueueTarget,
  buffer: Buffer,
  data: ArrayBufferView,
  options: RectOptions,
): Event {
  checkOptions("write a box", options, rectRules);
  const { region, host = {} } = options;
  checkRect(region, host, data.byteLength, "the array");
  return upload(queue, data, options, (bytes, blocking) => {
    const args = transferArgs(queue, buffer, bytes, blocking, options, host);
    return takeEvent(cl.clEnqueueWriteBufferRect(...args), "clEnqueueWriteBufferRect", queue);
  });
}

/** Copies a box of a buffer into a box of an array; the rest of the array stays as it is. */
export function readRect(
  queue: EnqueueTarget,
  buffer: Buffer,
  into: ArrayBufferView,
  options: RectOptions,
): Event {
  checkOptions("read a box", options, rectRules);
  const { region, host = {}, blocking = false } = options;
  checkRect(region, host, into.byteLength, "the array");
  const bytes = transferable(into, "read into");
  const direct = mayUseDirectly(bytes, blocking, options.noCopy ?? blocking);
  const target = direct ? bytes : driverMemory(region[0] * region[1] * region[2]);
  const deliver = (): void =>
    unpack(target, transferable(into, "finish a read into"), region, host);
  return transfer(queue, target, into, blocking, direct ? null : deliver, (bytes, blocking) => {
    const args = transferArgs(queue, buffer, bytes, blocking, options, direct ? host : {});
    return takeEvent(cl.clEnqueueReadBufferRect(...args), "clEnqueueReadBufferRect", queue);
  });
}

/** Arguments of reading and writing, as C takes them. */
function transferArgs(
  queue: EnqueueTarget,
  buffer: Buffer,
  bytes: Uint8Array,
  blocking: number,
  { region, buffer: layout = {}, wait }: RectOptions,
  host: RectLayout,
): Parameters<OpenCLSymbols["clEnqueueReadBufferRect"]> {
  requireObject("copy a box between host and buffer", buffer, "Buffer");
  checkRect(region, layout, buffer.nbytes, "a buffer");
  return [
    queue.unsafeHandle,
    buffer.unsafeHandle,
    blocking,
    triple(layout.origin ?? corner, "an origin"),
    triple(host.origin ?? corner, "an origin"),
    triple(region, "a region"),
    ...pitches(layout),
    ...pitches(host),
    bytes,
    listEvents(wait),
    eventList(wait),
    eventOut,
  ];
}

/** Copies a box of a buffer into a box of another. */
export function copyRect(
  queue: EnqueueTarget,
  source: Buffer,
  destination: Buffer,
  options: RectCopyOptions,
): Event {
  checkOptions("copy a box", options, rectCopyRules);
  requireObject("copy a box from a buffer", source, "Buffer");
  requireObject("copy a box to a buffer", destination, "Buffer");
  const { region, source: from = {}, destination: to = {}, wait } = options;
  checkRect(region, from, source.nbytes, "the source");
  checkRect(region, to, destination.nbytes, "the destination");
  const status = cl.clEnqueueCopyBufferRect(
    queue.unsafeHandle,
    source.unsafeHandle,
    destination.unsafeHandle,
    triple(from.origin ?? corner, "an origin"),
    triple(to.origin ?? corner, "an origin"),
    triple(region, "a region"),
    ...pitches(from),
    ...pitches(to),
    listEvents(wait),
    eventList(wait),
    eventOut,
  );
  return takeEvent(status, "clEnqueueCopyBufferRect", queue);
}
