/**
 * cl_intel_unified_shared_memory: addresses instead of memory objects, placed on the host, on a
 * device, or on both.
 *
 * @module
 */
import { CommandQueue, Context, Device, Kernel } from "./types.ts";

/** Functions of cl_intel_unified_shared_memory, for {@linkcode bindExtension}. */
export const unifiedSharedMemoryFunctions = {
  clHostMemAllocINTEL: {
    parameters: [
      Context, // cl_context context
      "buffer", // const cl_mem_properties_intel* properties
      "usize", // size_t size
      "u32", // cl_uint alignment
      "buffer", // cl_int* errcode_ret
    ],
    result: "u64", // void*
  },
  clDeviceMemAllocINTEL: {
    parameters: [
      Context, // cl_context context
      Device, // cl_device_id device
      "buffer", // const cl_mem_properties_intel* properties
      "usize", // size_t size
      "u32", // cl_uint alignment
      "buffer", // cl_int* errcode_ret
    ],
    result: "u64", // void*
  },
  clSharedMemAllocINTEL: {
    parameters: [
      Context, // cl_context context
      Device, // cl_device_id device
      "buffer", // const cl_mem_properties_intel* properties
      "usize", // size_t size
      "u32", // cl_uint alignment
      "buffer", // cl_int* errcode_ret
    ],
    result: "u64", // void*
  },
  clMemFreeINTEL: {
    parameters: [
      Context, // cl_context context
      "u64", // void* ptr
    ],
    result: "i32", // cl_int
  },
  clMemBlockingFreeINTEL: {
    parameters: [
      Context, // cl_context context
      "u64", // void* ptr
    ],
    result: "i32", // cl_int
  },
  clGetMemAllocInfoINTEL: {
    parameters: [
      Context, // cl_context context
      "u64", // const void* ptr
      "u32", // cl_mem_info_intel param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clSetKernelArgMemPointerINTEL: {
    parameters: [
      Kernel, // cl_kernel kernel
      "u32", // cl_uint arg_index
      "u64", // const void* arg_value
    ],
    result: "i32", // cl_int
  },
  clEnqueueMemFillINTEL: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // void* dst_ptr
      "buffer", // const void* pattern
      "usize", // size_t pattern_size
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueMemcpyINTEL: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_bool blocking
      "u64", // void* dst_ptr
      "u64", // const void* src_ptr
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueMemAdviseINTEL: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // const void* ptr
      "usize", // size_t size
      "u32", // cl_mem_advice_intel advice
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueMigrateMemINTEL: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // const void* ptr
      "usize", // size_t size
      "u64", // cl_mem_migration_flags flags
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
} as const;
