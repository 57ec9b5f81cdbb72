/**
 * Functions that enqueue commands.
 * The file is long because it is one table, a line a parameter, which a test compares with cl.h.
 *
 * @module
 */
import { CommandQueue, Kernel, Mem } from "./types.ts";

/** Commands that are enqueued. */
export const commandFunctions = {
  clEnqueueReadBuffer: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "u32", // cl_bool blocking_read
      "usize", // size_t offset
      "usize", // size_t size
      "buffer", // void* ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueReadBufferRect: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "u32", // cl_bool blocking_read
      "buffer", // const size_t* buffer_origin
      "buffer", // const size_t* host_origin
      "buffer", // const size_t* region
      "usize", // size_t buffer_row_pitch
      "usize", // size_t buffer_slice_pitch
      "usize", // size_t host_row_pitch
      "usize", // size_t host_slice_pitch
      "buffer", // void* ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.1",
  },
  clEnqueueWriteBuffer: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "u32", // cl_bool blocking_write
      "usize", // size_t offset
      "usize", // size_t size
      "buffer", // const void* ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueWriteBufferRect: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "u32", // cl_bool blocking_write
      "buffer", // const size_t* buffer_origin
      "buffer", // const size_t* host_origin
      "buffer", // const size_t* region
      "usize", // size_t buffer_row_pitch
      "usize", // size_t buffer_slice_pitch
      "usize", // size_t host_row_pitch
      "usize", // size_t host_slice_pitch
      "buffer", // const void* ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.1",
  },
  clEnqueueFillBuffer: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "buffer", // const void* pattern
      "usize", // size_t pattern_size
      "usize", // size_t offset
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clEnqueueCopyBuffer: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_buffer
      Mem, // cl_mem dst_buffer
      "usize", // size_t src_offset
      "usize", // size_t dst_offset
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueCopyBufferRect: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_buffer
      Mem, // cl_mem dst_buffer
      "buffer", // const size_t* src_origin
      "buffer", // const size_t* dst_origin
      "buffer", // const size_t* region
      "usize", // size_t src_row_pitch
      "usize", // size_t src_slice_pitch
      "usize", // size_t dst_row_pitch
      "usize", // size_t dst_slice_pitch
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.1",
  },
  clEnqueueReadImage: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem image
      "u32", // cl_bool blocking_read
      "buffer", // const size_t* origin
      "buffer", // const size_t* region
      "usize", // size_t row_pitch
      "usize", // size_t slice_pitch
      "buffer", // void* ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueWriteImage: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem image
      "u32", // cl_bool blocking_write
      "buffer", // const size_t* origin
      "buffer", // const size_t* region
      "usize", // size_t input_row_pitch
      "usize", // size_t input_slice_pitch
      "buffer", // const void* ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueFillImage: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem image
      "buffer", // const void* fill_color
      "buffer", // const size_t* origin
      "buffer", // const size_t* region
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clEnqueueCopyImage: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_image
      Mem, // cl_mem dst_image
      "buffer", // const size_t* src_origin
      "buffer", // const size_t* dst_origin
      "buffer", // const size_t* region
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueCopyImageToBuffer: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_image
      Mem, // cl_mem dst_buffer
      "buffer", // const size_t* src_origin
      "buffer", // const size_t* region
      "usize", // size_t dst_offset
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueCopyBufferToImage: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_buffer
      Mem, // cl_mem dst_image
      "usize", // size_t src_offset
      "buffer", // const size_t* dst_origin
      "buffer", // const size_t* region
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueMapBuffer: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "u32", // cl_bool blocking_map
      "u64", // cl_map_flags map_flags
      "usize", // size_t offset
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
      "buffer", // cl_int* errcode_ret
    ],
    result: "u64", // void*
  },
  clEnqueueMapImage: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem image
      "u32", // cl_bool blocking_map
      "u64", // cl_map_flags map_flags
      "buffer", // const size_t* origin
      "buffer", // const size_t* region
      "buffer", // size_t* image_row_pitch
      "buffer", // size_t* image_slice_pitch
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
      "buffer", // cl_int* errcode_ret
    ],
    result: "u64", // void*
  },
  clEnqueueUnmapMemObject: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem memobj
      "u64", // void* mapped_ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueMigrateMemObjects: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_mem_objects
      "buffer", // const cl_mem* mem_objects
      "u64", // cl_mem_migration_flags flags
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clEnqueueNDRangeKernel: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Kernel, // cl_kernel kernel
      "u32", // cl_uint work_dim
      "buffer", // const size_t* global_work_offset
      "buffer", // const size_t* global_work_size
      "buffer", // const size_t* local_work_size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueNativeKernel: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // void (*user_func)(...)
      "buffer", // void* args
      "usize", // size_t cb_args
      "u32", // cl_uint num_mem_objects
      "buffer", // const cl_mem* mem_list
      "buffer", // const void** args_mem_loc
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueMarkerWithWaitList: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clEnqueueBarrierWithWaitList: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clEnqueueSVMFree: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_svm_pointers
      "buffer", // void* svm_pointers[]
      "u64", // void (*pfn_free_func)(...)
      "u64", // void* user_data
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clEnqueueSVMMemcpy: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_bool blocking_copy
      "u64", // void* dst_ptr
      "u64", // const void* src_ptr
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clEnqueueSVMMemFill: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // void* svm_ptr
      "buffer", // const void* pattern
      "usize", // size_t pattern_size
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clEnqueueSVMMap: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_bool blocking_map
      "u64", // cl_map_flags flags
      "u64", // void* svm_ptr
      "usize", // size_t size
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clEnqueueSVMUnmap: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u64", // void* svm_ptr
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clEnqueueSVMMigrateMem: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_svm_pointers
      "buffer", // const void** svm_pointers
      "buffer", // const size_t* sizes
      "u64", // cl_mem_migration_flags flags
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
    since: "2.1",
  },
  clEnqueueMarker: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clEnqueueWaitForEvents: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_events
      "buffer", // const cl_event* event_list
    ],
    result: "i32", // cl_int
  },
  clEnqueueBarrier: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
    ],
    result: "i32", // cl_int
  },
  clEnqueueTask: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
      Kernel, // cl_kernel kernel
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
} as const;
