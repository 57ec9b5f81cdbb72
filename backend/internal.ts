/**
 * The backends for the tensor layer, beside what everybody may use (`mod.ts`): the graph,
 * its schedules, recordings of them.
 */
export * from "./mod.ts";
export { finalizer } from "../ffi/library/finalizer.ts";
export type {
  Backend,
  BesideCopy,
  Block,
  Capabilities,
  Gate,
  HostBlock,
  HostCopy,
  Launch,
  RepeatedLaunch,
  Sign,
} from "./execution/backend.ts";
export { SIGN_VALUES } from "./execution/backend.ts";
export { backendOf } from "./backends.ts";
export { matrixAttributes } from "./opencl/codegen/units/matrix_helpers.ts";
export { hasMma, hasWarps } from "./opencl/runtime/matrix_units.ts";
export { activeTrace } from "./profiling/trace.ts";
export { nextNodeId } from "./graph/node.ts";
export { blockBytes, type BlockFormat, fieldPlaces } from "./formats/block_format.ts";
export { formatTable } from "./formats/block_formats.ts";
export { fieldsApart, hostBlocks } from "./formats/host_blocks.ts";
export {
  beginResumable,
  isDeterministic,
  waitForCompiledKernels,
} from "./execution/determinism.ts";
export { backendNames } from "./devices/device_handle.ts";
export {
  type DTypeInfo,
  type DTypeKind,
  dtypes,
  fromBfloat16Bits,
  isFloat,
  toBfloat16Bits,
} from "./graph/dtype.ts";
export { declarationOf, declaredTypes } from "./graph/kernel_declaration.ts";
export { gateCounts, type ScatterMode } from "./graph/op.ts";
export { Template } from "./graph/template.ts";
export { GoneError } from "./graph/toposort.ts";
export type { LaterGraph } from "./schedule/plan_cache.ts";
export { type Companion, schedule } from "./schedule/schedule.ts";
export { broadcastShapes, formatShape, sameShape, sizeOf, stridesOf } from "./graph/shape.ts";
export { isView } from "./kernel/view.ts";
export { asWhole, isInterrupted } from "./lifecycle/interruption.ts";
export { Pace } from "./lifecycle/pace.ts";
export { BlockPart, MAX_BASE_BYTES } from "./execution/block_part.ts";
export { isEager, MAX_HOST_DATA_BYTES, realize } from "./execution/realize.ts";
export { busyWith, leaveToCollector, relieve } from "./execution/spilling.ts";
export { ZERO_BYTE } from "./graph/attention.ts";
export { releaseTransient } from "./graph/stored_value.ts";
export { isReadable, peekNode, readNode, readNodeSync } from "./execution/reading.ts";
export {
  type ExternalValue,
  isRecording,
  record,
  type RecordedLaunch,
  type Recording,
  unrecorded,
} from "./execution/recording.ts";
export * from "./communication/mod.ts";
export type { MatrixProgram } from "./matrix/language.ts";
export { parseMatrixText } from "./matrix/parse.ts";
export { vectorText } from "./matrix/vector_text.ts";
export { type MatrixScript, matrixScript } from "./matrix/script.ts";
