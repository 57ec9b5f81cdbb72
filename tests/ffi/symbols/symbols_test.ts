import { assert, assertEquals } from "@std/assert";
import * as ffi from "../../../ffi/mod.ts";
import { commandBufferFunctions } from "../../../ffi/symbols/command_buffer.ts";
import { type FunctionName, functions } from "../../../ffi/library/symbols.ts";
import type { FunctionTable, FunctionType } from "../../../ffi/symbols/types.ts";
import { unifiedSharedMemoryFunctions } from "../../../ffi/symbols/unified_shared_memory.ts";
import { defines, type Prototype, prototypes, readHeader, typeSizes } from "./c_header.ts";

const core = readHeader("cl.h");
const extensions = readHeader("cl_ext.h");
const ignore = core === null || extensions === null;

const widths = { u32: "4 unsigned", i32: "4 signed", u64: "8", usize: "8", buffer: "8" } as const;
const sizes = typeSizes((core ?? "") + (extensions ?? ""), [
  ["size_t", 8],
  ["cl_uint", 4],
  ["cl_int", 4],
  ["cl_ulong", 8],
]);
// cl_bool and cl_bitfield are typedefs of cl_uint and cl_ulong in cl.h itself.

/** Demands of the header's type on a table entry: a width, and for 4 bytes a sign. */
function needs(type: string): string {
  if (type === "*") return "8";
  if (type === "void") return "0";
  const size = sizes.get(type);
  assert(size !== undefined, `the size of ${type} is known`);
  return size === 4 ? `4 ${type === "cl_int" ? "signed" : "unsigned"}` : "8";
}

function offers(type: string): string {
  return type === "void" ? "0" : widths[type as keyof typeof widths] ?? "8";
}

function compare(prototype: Prototype, entry: FunctionType | undefined): void {
  const { name } = prototype;
  assert(entry !== undefined, `${name} is in the table`);
  assertEquals(
    entry.parameters.map(offers),
    prototype.parameters.map(({ type }) => needs(type)),
    `the parameters of ${name}`,
  );
  assertEquals(offers(entry.result), needs(prototype.result), `the result of ${name}`);
  // A pointer that is not an address of the device's must be a buffer: V8 checks those.
  assertEquals(entry.result === "i32", prototype.result === "cl_int", `the status of ${name}`);
}

Deno.test("the symbol table has every function of cl.h, with the parameters that it declares", {
  ignore,
}, () => {
  const declared = prototypes(core!);
  assertEquals(declared.length, 114);
  for (const prototype of declared) compare(prototype, functions[prototype.name as FunctionName]);
});

Deno.test("the symbol table has no function that cl.h does not declare", { ignore }, () => {
  const declared = new Set(prototypes(core!).map(({ name }) => name));
  const table: FunctionTable = functions;
  const names = Object.entries(table).map(([key, { name = key }]) => name);
  assertEquals(names.filter((name) => !declared.has(name)), []);
});

Deno.test("what newer versions brought says since when", { ignore }, () => {
  for (const { name, since } of prototypes(core!)) {
    if (since === null) continue; // deprecated: the header no longer says since when
    const entry: FunctionType = functions[name as FunctionName];
    assertEquals(entry.since ?? "1.0", since, name);
  }
});

Deno.test("nonblocking twins take what their functions take", () => {
  const table: FunctionTable = functions;
  for (const [key, { name, parameters, result, nonblocking }] of Object.entries(table)) {
    if (!nonblocking) continue;
    assertEquals(key, `${name}Async`);
    assertEquals({ parameters, result }, {
      parameters: table[name!]!.parameters,
      result: table[name!]!.result,
    });
  }
});

for (
  const [extension, table] of [
    ["cl_khr_command_buffer", commandBufferFunctions],
    ["cl_intel_unified_shared_memory", unifiedSharedMemoryFunctions],
  ] as const
) {
  Deno.test(`the functions of ${extension} are declared as in cl_ext.h`, { ignore }, () => {
    const declared = new Map(prototypes(extensions!).map((each) => [each.name, each]));
    for (const [name, entry] of Object.entries<FunctionType>(table)) {
      const prototype = declared.get(name);
      assert(prototype !== undefined, `cl_ext.h declares ${name}`);
      compare(prototype, entry);
    }
  });
}

/** The groups of constants, and the prefix that their names have in the header. */
const prefixes = `
Status: Bool:CL_ PlatformInfo:CL_PLATFORM_ DeviceType:CL_DEVICE_TYPE_ DeviceInfo:CL_DEVICE_
FloatConfig:CL_FP_ MemCacheType:CL_ LocalMemType:CL_ ExecCapabilities:CL_EXEC_
QueueProperties:CL_QUEUE_ ContextInfo:CL_CONTEXT_ ContextProperties:CL_CONTEXT_
DevicePartition:CL_DEVICE_PARTITION_ AffinityDomain:CL_DEVICE_AFFINITY_DOMAIN_
SvmCapabilities:CL_DEVICE_SVM_ QueueInfo:CL_QUEUE_ MemFlags:CL_MEM_
MigrationFlags:CL_MIGRATE_MEM_OBJECT_ ChannelOrder:CL_ ChannelType:CL_
MemObjectType:CL_MEM_OBJECT_ MemInfo:CL_MEM_ ImageInfo:CL_IMAGE_ PipeInfo:CL_PIPE_
AddressingMode:CL_ADDRESS_ FilterMode:CL_FILTER_ SamplerInfo:CL_SAMPLER_ MapFlags:CL_MAP_
ProgramInfo:CL_PROGRAM_ ProgramBuildInfo:CL_PROGRAM_ ProgramBinaryType:CL_PROGRAM_BINARY_TYPE_
BuildStatus:CL_BUILD_ KernelInfo:CL_KERNEL_ KernelArgInfo:CL_KERNEL_ARG_
ArgAddressQualifier:CL_KERNEL_ARG_ADDRESS_ ArgAccessQualifier:CL_KERNEL_ARG_ACCESS_
ArgTypeQualifier:CL_KERNEL_ARG_TYPE_ WorkGroupInfo:CL_KERNEL_ SubGroupInfo:CL_KERNEL_
KernelExecInfo:CL_KERNEL_EXEC_INFO_ EventInfo:CL_EVENT_ CommandType:CL_COMMAND_
ExecutionStatus:CL_ BufferCreateType:CL_BUFFER_CREATE_TYPE_ ProfilingInfo:CL_PROFILING_COMMAND_
AtomicCapabilities:CL_DEVICE_ATOMIC_ DeviceEnqueueCapabilities:CL_DEVICE_QUEUE_
KhronosVendorId:CL_KHRONOS_VENDOR_ID_ Version:CL_VERSION_
`.trim().split(/\s+/).map((word) => word.split(":") as [group: string, prefix: string]);

function constants(): Map<string, Set<bigint>> {
  const all = new Map<string, Set<bigint>>();
  for (const [group, prefix] of prefixes) {
    const table = ffi[group as keyof typeof ffi] as unknown as Record<string, number | bigint>;
    for (const [key, value] of Object.entries(table)) {
      for (const name of new Set([prefix + key, `CL_${key}`])) {
        all.set(name, (all.get(name) ?? new Set()).add(BigInt(value)));
      }
    }
  }
  return all;
}

Deno.test("the constants are those of cl.h, none missing, none of other value", { ignore }, () => {
  const header = core!.slice(core!.indexOf("CL_SUCCESS") - 20);
  const ours = constants();
  const declared = defines(header);
  assert(declared.size > 450, `the header defines constants: ${declared.size}`);
  for (const [name, value] of declared) {
    assert(ours.has(name), `${name} is among the constants`);
    assert(ours.get(name)!.has(value), `${name} is ${value}`);
  }
});

Deno.test("every negative code of the headers has a name", { ignore }, () => {
  const section = core!.slice(
    core!.indexOf("#define CL_SUCCESS"),
    core!.indexOf("#define CL_FALSE"),
  );
  const codes = [...defines(section), ...defines(extensions!)]
    .filter(([name, value]) => value < 0n && (name in ffi.Status || value <= -1000n));
  assert(codes.length > 70, `the headers define codes: ${codes.length}`);
  for (const [name, value] of codes) assertEquals(ffi.statusName(Number(value)), name);
});
