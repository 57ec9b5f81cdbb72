/**
 * cl_khr_command_buffer, as of version 0.9.0. From 0.9.5 on every function that records a command
 * takes a properties list after the queue; see `ffi/queue/command_buffer.ts`.
 *
 * @module
 */
import { CommandBuffer, CommandQueue, Kernel, Mem } from "./types.ts";

/** Functions of cl_khr_command_buffer. */
export const commandBufferFunctions = {
  clCreateCommandBufferKHR: {
    parameters: [
      "u32", // cl_uint num_queues
      "buffer", // const cl_command_queue* queues
      "buffer", // const cl_command_buffer_properties_khr* properties
      "buffer", // cl_int* errcode_ret
    ],
    result: CommandBuffer, // cl_command_buffer_khr
  },
  clRetainCommandBufferKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
    ],
    result: "i32", // cl_int
  },
  clReleaseCommandBufferKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
    ],
    result: "i32", // cl_int
  },
  clFinalizeCommandBufferKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
    ],
    result: "i32", // cl_int
  },
  clEnqueueCommandBufferKHR: {
    parameters: [
      "u32", // cl_uint num_queues
      "buffer", // cl_command_queue* queues
      CommandBuffer, // cl_command_buffer_khr command_buffer
      "u32", // cl_uint num_events_in_wait_list
      "buffer", // const cl_event* event_wait_list
      "buffer", // cl_event* event
    ],
    result: "i32", // cl_int
  },
  clGetCommandBufferInfoKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      "u32", // cl_command_buffer_info_khr param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clCommandBarrierWithWaitListKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandCopyBufferKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_buffer
      Mem, // cl_mem dst_buffer
      "usize", // size_t src_offset
      "usize", // size_t dst_offset
      "usize", // size_t size
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandCopyBufferRectKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
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
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandCopyBufferToImageKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_buffer
      Mem, // cl_mem dst_image
      "usize", // size_t src_offset
      "buffer", // const size_t* dst_origin
      "buffer", // const size_t* region
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandCopyImageKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_image
      Mem, // cl_mem dst_image
      "buffer", // const size_t* src_origin
      "buffer", // const size_t* dst_origin
      "buffer", // const size_t* region
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandCopyImageToBufferKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem src_image
      Mem, // cl_mem dst_buffer
      "buffer", // const size_t* src_origin
      "buffer", // const size_t* region
      "usize", // size_t dst_offset
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandFillBufferKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem buffer
      "buffer", // const void* pattern
      "usize", // size_t pattern_size
      "usize", // size_t offset
      "usize", // size_t size
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandFillImageKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      Mem, // cl_mem image
      "buffer", // const void* fill_color
      "buffer", // const size_t* origin
      "buffer", // const size_t* region
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
  clCommandNDRangeKernelKHR: {
    parameters: [
      CommandBuffer, // cl_command_buffer_khr command_buffer
      CommandQueue, // cl_command_queue command_queue
      "buffer", // const cl_ndrange_kernel_command_properties_khr* properties
      Kernel, // cl_kernel kernel
      "u32", // cl_uint work_dim
      "buffer", // const size_t* global_work_offset
      "buffer", // const size_t* global_work_size
      "buffer", // const size_t* local_work_size
      "u32", // cl_uint num_sync_points_in_wait_list
      "buffer", // const cl_sync_point_khr* sync_point_wait_list
      "buffer", // cl_sync_point_khr* sync_point
      "buffer", // cl_mutable_command_khr* mutable_handle
    ],
    result: "i32", // cl_int
  },
} as const;
