/**
 * OpenCL for Deno: the whole of libOpenCL as TypeScript, typed and owned. One class per OpenCL
 * object; a status is an exception; nothing is loaded before the first call. It imports nothing but
 * itself.
 *
 * **Folders**, each of which imports those before it only: `host/` (options, files, environment),
 * `symbols/` (the C declarations), `library/` (libOpenCL, errors, constants), `objects/` (platforms,
 * devices, contexts), `events/` (waiting, transfers), `memory/` (buffers, images), `kernels/`
 * (programs, arguments), `queue/` (commands). A call goes down through them to the driver; handles
 * and events come back.
 *
 * @example Add two vectors
 * ```ts
 * import { Buffer, CommandQueue, Context, platforms, Program } from "@netcl/netcl/ffi";
 *
 * using context = new Context(platforms()[0]!.devices()[0]!);
 * using queue = new CommandQueue(context);
 * using program = new Program(context, `
 *   kernel void add(global const float* a, global const float* b, global float* sum) {
 *     const size_t i = get_global_id(0);
 *     sum[i] = a[i] + b[i];
 *   }`).build();
 * using kernel = program.kernel("add");
 * using a = new Buffer(context, 12, { data: new Float32Array([1, 2, 3]) });
 * using b = new Buffer(context, 12, { data: new Float32Array([4, 5, 6]) });
 * using sum = new Buffer(context, 12);
 * queue.run(kernel, { global: [3], args: [a, b, sum] });
 * const result = new Float32Array(3);
 * await queue.read(sum, result).wait();
 * console.log(result); // [5, 7, 9]
 * ```
 *
 * @module
 */
export * from "./library/constants.ts";
export {
  check,
  CommandFailedError,
  DisposedError,
  KernelBuildError,
  OpenCLError,
  OpenCLUnavailableError,
  statusName,
} from "./library/errors.ts";
export {
  EnvironmentError,
  type EnvironmentName,
  type EnvironmentVariable,
  environmentVariables,
  readEnvironment,
} from "./host/environment.ts";
export { libraryPath, openLibrary } from "./library/library.ts";
export { type GuardedSignal, ignoredSignals } from "./library/signals.ts";
export {
  type FunctionName,
  functions,
  type OpenCLFunctions,
  type OpenCLSymbols,
  waitingFunctions,
} from "./library/symbols.ts";
export * from "./symbols/objects.ts";
export * from "./symbols/programs.ts";
export * from "./symbols/commands.ts";
export type {
  Call,
  Calls,
  FunctionTable,
  FunctionType,
  Handle,
  HandleType,
  Memory,
  Value,
  Values,
  ValueType,
} from "./symbols/types.ts";
export {
  leakedObjects,
  liveObjects,
  type ObjectKind,
  OpenCLObject,
  type Releaser,
} from "./objects/object.ts";
export type { NameVersion, PropertyKind, PropertyTypes } from "./library/info.ts";
export { isOpenCLAvailable, platforms } from "./objects/platforms.ts";
export { Device, Platform, SubDevice } from "./objects/device.ts";
export type { AffinityName, DevicePartitioning } from "./objects/device_partition.ts";
export { deviceProperties, type DevicePropertyName } from "./objects/device_info.ts";
export { Context } from "./objects/context.ts";
export { Buffer, type BufferOptions } from "./memory/buffer.ts";
export { type ExistingProgram, type Header, Program } from "./kernels/program.ts";
export { Kernel, type KernelArg } from "./kernels/kernel.ts";
export type { ArgumentInfo } from "./kernels/kernel_args.ts";
export { Event, type EventProfile, UserEvent } from "./events/event.ts";
export type { Completion, EnqueueTarget, Flushable } from "./events/enqueue_target.ts";
export { CommandQueue } from "./queue/command_queue.ts";
export { liveQueues, onQueueCreated } from "./queue/live_queues.ts";
export type {
  BufferCopyOptions,
  LaunchOptions,
  MigrateOptions,
  QueueOptions,
  RectCopyOptions,
  RectOptions,
  TransferOptions,
} from "./queue/queue_options.ts";
export type { FillOptions, MapOptions } from "./memory/access_options.ts";
export type { CopyOptions } from "./events/copy_options.ts";
export { transfersWith } from "./events/transfers_in_flight.ts";
export { MappedRegion } from "./memory/mapped_region.ts";
export { SvmBuffer, type SvmOptions } from "./memory/svm.ts";
export {
  Image,
  type ImageBufferOptions,
  type ImageCopyOptions,
  type ImageOptions,
  type ImageRegionOptions,
  type ImageTransferOptions,
  type ImageType,
} from "./memory/image.ts";
export type { ImageFormat } from "./memory/image_format.ts";
export { Sampler, type SamplerOptions } from "./memory/sampler.ts";
export type { RectLayout, Triple } from "./memory/rect.ts";
export { setWaitPolicy, type WaitPolicy } from "./events/waiting.ts";
export { bindExtension, extensionVersion } from "./objects/extension.ts";
export { CommandBuffer, type Recorded, type SyncPoint } from "./queue/command_buffer.ts";
export { commandBufferFunctions } from "./symbols/command_buffer.ts";
export { unifiedSharedMemoryFunctions } from "./symbols/unified_shared_memory.ts";
export {
  type Fault,
  type FaultyExtensionFunction,
  type FaultyFunction,
  withFaults,
} from "./library/faults.ts";
