/**
 * Functions of platforms, devices, contexts, queues, memory objects and samplers.
 * The file is long because it is one table, a line a parameter, which a test compares with cl.h.
 *
 * @module
 */
import { CommandQueue, Context, Device, Mem, Platform, Sampler } from "./types.ts";

/** Platform: clGetPlatformIDs and its info. */
export const platformFunctions = {
  clGetPlatformIDs: {
    parameters: [
      "u32", // cl_uint num_entries
      "buffer", // cl_platform_id* platforms
      "buffer", // cl_uint* num_platforms
    ],
    result: "i32", // cl_int
  },
  clGetPlatformInfo: {
    parameters: [
      Platform, // cl_platform_id platform
      "u32", // cl_platform_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
} as const;

/** Devices, sub-devices and their timers. */
export const deviceFunctions = {
  clGetDeviceIDs: {
    parameters: [
      Platform, // cl_platform_id platform
      "u64", // cl_device_type device_type
      "u32", // cl_uint num_entries
      "buffer", // cl_device_id* devices
      "buffer", // cl_uint* num_devices
    ],
    result: "i32", // cl_int
  },
  clGetDeviceInfo: {
    parameters: [
      Device, // cl_device_id device
      "u32", // cl_device_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clCreateSubDevices: {
    parameters: [
      Device, // cl_device_id in_device
      "buffer", // const cl_device_partition_property* properties
      "u32", // cl_uint num_devices
      "buffer", // cl_device_id* out_devices
      "buffer", // cl_uint* num_devices_ret
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clRetainDevice: {
    parameters: [
      Device, // cl_device_id device
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clReleaseDevice: {
    parameters: [
      Device, // cl_device_id device
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clSetDefaultDeviceCommandQueue: {
    parameters: [
      Context, // cl_context context
      Device, // cl_device_id device
      CommandQueue, // cl_command_queue command_queue
    ],
    result: "i32", // cl_int
    since: "2.1",
  },
  clGetDeviceAndHostTimer: {
    parameters: [
      Device, // cl_device_id device
      "buffer", // cl_ulong* device_timestamp
      "buffer", // cl_ulong* host_timestamp
    ],
    result: "i32", // cl_int
    since: "2.1",
  },
  clGetHostTimer: {
    parameters: [
      Device, // cl_device_id device
      "buffer", // cl_ulong* host_timestamp
    ],
    result: "i32", // cl_int
    since: "2.1",
  },
} as const;

/** Contexts. */
export const contextFunctions = {
  clCreateContext: {
    parameters: [
      "buffer", // const cl_context_properties* properties
      "u32", // cl_uint num_devices
      "buffer", // const cl_device_id* devices
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
      "buffer", // cl_int* errcode_ret
    ],
    result: Context, // cl_context
  },
  clCreateContextFromType: {
    parameters: [
      "buffer", // const cl_context_properties* properties
      "u64", // cl_device_type device_type
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
      "buffer", // cl_int* errcode_ret
    ],
    result: Context, // cl_context
  },
  clRetainContext: {
    parameters: [
      Context, // cl_context context
    ],
    result: "i32", // cl_int
  },
  clReleaseContext: {
    parameters: [
      Context, // cl_context context
    ],
    result: "i32", // cl_int
  },
  clGetContextInfo: {
    parameters: [
      Context, // cl_context context
      "u32", // cl_context_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clSetContextDestructorCallback: {
    parameters: [
      Context, // cl_context context
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
    ],
    result: "i32", // cl_int
    since: "3.0",
  },
} as const;

/** Command queues. */
export const commandQueueFunctions = {
  clCreateCommandQueueWithProperties: {
    parameters: [
      Context, // cl_context context
      Device, // cl_device_id device
      "buffer", // const cl_queue_properties* properties
      "buffer", // cl_int* errcode_ret
    ],
    result: CommandQueue, // cl_command_queue
    since: "2.0",
  },
  clRetainCommandQueue: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
    ],
    result: "i32", // cl_int
  },
  clReleaseCommandQueue: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
    ],
    result: "i32", // cl_int
  },
  clGetCommandQueueInfo: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_command_queue_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clSetCommandQueueProperty: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // cl_command_queue_properties properties
      "u32", // cl_bool enable
      "buffer", // cl_command_queue_properties* old_properties
    ],
    result: "i32", // cl_int
  },
  clCreateCommandQueue: {
    parameters: [
      Context, // cl_context context
      Device, // cl_device_id device
      "u64", // cl_command_queue_properties properties
      "buffer", // cl_int* errcode_ret
    ],
    result: CommandQueue, // cl_command_queue
  },
} as const;

/** Buffers, images and pipes. */
export const memoryObjectFunctions = {
  clCreateBuffer: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_mem_flags flags
      "usize", // size_t size
      "buffer", // void* host_ptr
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
  },
  clCreateSubBuffer: {
    parameters: [
      Mem, // cl_mem buffer
      "u64", // cl_mem_flags flags
      "u32", // cl_buffer_create_type buffer_create_type
      "buffer", // const void* buffer_create_info
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
    since: "1.1",
  },
  clCreateImage: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_mem_flags flags
      "buffer", // const cl_image_format* image_format
      "buffer", // const cl_image_desc* image_desc
      "buffer", // void* host_ptr
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
    since: "1.2",
  },
  clCreatePipe: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_mem_flags flags
      "u32", // cl_uint pipe_packet_size
      "u32", // cl_uint pipe_max_packets
      "buffer", // const cl_pipe_properties* properties
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
    since: "2.0",
  },
  clCreateBufferWithProperties: {
    parameters: [
      Context, // cl_context context
      "buffer", // const cl_mem_properties* properties
      "u64", // cl_mem_flags flags
      "usize", // size_t size
      "buffer", // void* host_ptr
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
    since: "3.0",
  },
  clCreateImageWithProperties: {
    parameters: [
      Context, // cl_context context
      "buffer", // const cl_mem_properties* properties
      "u64", // cl_mem_flags flags
      "buffer", // const cl_image_format* image_format
      "buffer", // const cl_image_desc* image_desc
      "buffer", // void* host_ptr
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
    since: "3.0",
  },
  clRetainMemObject: {
    parameters: [
      Mem, // cl_mem memobj
    ],
    result: "i32", // cl_int
  },
  clReleaseMemObject: {
    parameters: [
      Mem, // cl_mem memobj
    ],
    result: "i32", // cl_int
  },
  clGetSupportedImageFormats: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_mem_flags flags
      "u32", // cl_mem_object_type image_type
      "u32", // cl_uint num_entries
      "buffer", // cl_image_format* image_formats
      "buffer", // cl_uint* num_image_formats
    ],
    result: "i32", // cl_int
  },
  clGetMemObjectInfo: {
    parameters: [
      Mem, // cl_mem memobj
      "u32", // cl_mem_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clGetImageInfo: {
    parameters: [
      Mem, // cl_mem image
      "u32", // cl_image_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clGetPipeInfo: {
    parameters: [
      Mem, // cl_mem pipe
      "u32", // cl_pipe_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clSetMemObjectDestructorCallback: {
    parameters: [
      Mem, // cl_mem memobj
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
    ],
    result: "i32", // cl_int
    since: "1.1",
  },
  clCreateImage2D: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_mem_flags flags
      "buffer", // const cl_image_format* image_format
      "usize", // size_t image_width
      "usize", // size_t image_height
      "usize", // size_t image_row_pitch
      "buffer", // void* host_ptr
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
  },
  clCreateImage3D: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_mem_flags flags
      "buffer", // const cl_image_format* image_format
      "usize", // size_t image_width
      "usize", // size_t image_height
      "usize", // size_t image_depth
      "usize", // size_t image_row_pitch
      "usize", // size_t image_slice_pitch
      "buffer", // void* host_ptr
      "buffer", // cl_int* errcode_ret
    ],
    result: Mem, // cl_mem
  },
} as const;

/** Shared virtual memory. */
export const sharedVirtualMemoryFunctions = {
  clSVMAlloc: {
    parameters: [
      Context, // cl_context context
      "u64", // cl_svm_mem_flags flags
      "usize", // size_t size
      "u32", // cl_uint alignment
    ],
    result: "u64", // void*
    since: "2.0",
  },
  clSVMFree: {
    parameters: [
      Context, // cl_context context
      "u64", // void* svm_pointer
    ],
    result: "void", // void
    since: "2.0",
  },
} as const;

/** Samplers. */
export const samplerFunctions = {
  clCreateSamplerWithProperties: {
    parameters: [
      Context, // cl_context context
      "buffer", // const cl_sampler_properties* sampler_properties
      "buffer", // cl_int* errcode_ret
    ],
    result: Sampler, // cl_sampler
    since: "2.0",
  },
  clRetainSampler: {
    parameters: [
      Sampler, // cl_sampler sampler
    ],
    result: "i32", // cl_int
  },
  clReleaseSampler: {
    parameters: [
      Sampler, // cl_sampler sampler
    ],
    result: "i32", // cl_int
  },
  clGetSamplerInfo: {
    parameters: [
      Sampler, // cl_sampler sampler
      "u32", // cl_sampler_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clCreateSampler: {
    parameters: [
      Context, // cl_context context
      "u32", // cl_bool normalized_coords
      "u32", // cl_addressing_mode addressing_mode
      "u32", // cl_filter_mode filter_mode
      "buffer", // cl_int* errcode_ret
    ],
    result: Sampler, // cl_sampler
  },
} as const;

/** Looks up extension functions. */
export const extensionFunctions = {
  clGetExtensionFunctionAddressForPlatform: {
    parameters: [
      Platform, // cl_platform_id platform
      "buffer", // const char* func_name
    ],
    result: "u64", // void*
    since: "1.2",
  },
  clGetExtensionFunctionAddress: {
    parameters: [
      "buffer", // const char* func_name
    ],
    result: "u64", // void*
  },
} as const;
