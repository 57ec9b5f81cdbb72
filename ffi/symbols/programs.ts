/**
 * Functions of programs, kernels, events.
 *
 * @module
 */
import { CommandQueue, Context, Device, Event, Kernel, Platform, Program } from "./types.ts";

/** Programs: from source, binary, IL; build, compile, link. */
export const programFunctions = {
  clCreateProgramWithSource: {
    parameters: [
      Context, // cl_context context
      "u32", // cl_uint count
      "buffer", // const char** strings
      "buffer", // const size_t* lengths
      "buffer", // cl_int* errcode_ret
    ],
    result: Program, // cl_program
  },
  clCreateProgramWithBinary: {
    parameters: [
      Context, // cl_context context
      "u32", // cl_uint num_devices
      "buffer", // const cl_device_id* device_list
      "buffer", // const size_t* lengths
      "buffer", // const unsigned char** binaries
      "buffer", // cl_int* binary_status
      "buffer", // cl_int* errcode_ret
    ],
    result: Program, // cl_program
  },
  clCreateProgramWithBuiltInKernels: {
    parameters: [
      Context, // cl_context context
      "u32", // cl_uint num_devices
      "buffer", // const cl_device_id* device_list
      "buffer", // const char* kernel_names
      "buffer", // cl_int* errcode_ret
    ],
    result: Program, // cl_program
    since: "1.2",
  },
  clCreateProgramWithIL: {
    parameters: [
      Context, // cl_context context
      "buffer", // const void* il
      "usize", // size_t length
      "buffer", // cl_int* errcode_ret
    ],
    result: Program, // cl_program
    since: "2.1",
  },
  clRetainProgram: {
    parameters: [
      Program, // cl_program program
    ],
    result: "i32", // cl_int
  },
  clReleaseProgram: {
    parameters: [
      Program, // cl_program program
    ],
    result: "i32", // cl_int
  },
  clBuildProgram: {
    parameters: [
      Program, // cl_program program
      "u32", // cl_uint num_devices
      "buffer", // const cl_device_id* device_list
      "buffer", // const char* options
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
    ],
    result: "i32", // cl_int
  },
  clCompileProgram: {
    parameters: [
      Program, // cl_program program
      "u32", // cl_uint num_devices
      "buffer", // const cl_device_id* device_list
      "buffer", // const char* options
      "u32", // cl_uint num_input_headers
      "buffer", // const cl_program* input_headers
      "buffer", // const char** header_include_names
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clLinkProgram: {
    parameters: [
      Context, // cl_context context
      "u32", // cl_uint num_devices
      "buffer", // const cl_device_id* device_list
      "buffer", // const char* options
      "u32", // cl_uint num_input_programs
      "buffer", // const cl_program* input_programs
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
      "buffer", // cl_int* errcode_ret
    ],
    result: Program, // cl_program
    since: "1.2",
  },
  clSetProgramReleaseCallback: {
    parameters: [
      Program, // cl_program program
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
    ],
    result: "i32", // cl_int
    since: "2.2",
  },
  clSetProgramSpecializationConstant: {
    parameters: [
      Program, // cl_program program
      "u32", // cl_uint spec_id
      "usize", // size_t spec_size
      "buffer", // const void* spec_value
    ],
    result: "i32", // cl_int
    since: "2.2",
  },
  clUnloadPlatformCompiler: {
    parameters: [
      Platform, // cl_platform_id platform
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clGetProgramInfo: {
    parameters: [
      Program, // cl_program program
      "u32", // cl_program_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clGetProgramBuildInfo: {
    parameters: [
      Program, // cl_program program
      Device, // cl_device_id device
      "u32", // cl_program_build_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clUnloadCompiler: {
    parameters: [],
    result: "i32", // cl_int
  },
} as const;

/** Kernels and their arguments. */
export const kernelFunctions = {
  clCreateKernel: {
    parameters: [
      Program, // cl_program program
      "buffer", // const char* kernel_name
      "buffer", // cl_int* errcode_ret
    ],
    result: Kernel, // cl_kernel
  },
  clCreateKernelsInProgram: {
    parameters: [
      Program, // cl_program program
      "u32", // cl_uint num_kernels
      "buffer", // cl_kernel* kernels
      "buffer", // cl_uint* num_kernels_ret
    ],
    result: "i32", // cl_int
  },
  clCloneKernel: {
    parameters: [
      Kernel, // cl_kernel source_kernel
      "buffer", // cl_int* errcode_ret
    ],
    result: Kernel, // cl_kernel
    since: "2.1",
  },
  clRetainKernel: {
    parameters: [
      Kernel, // cl_kernel kernel
    ],
    result: "i32", // cl_int
  },
  clReleaseKernel: {
    parameters: [
      Kernel, // cl_kernel kernel
    ],
    result: "i32", // cl_int
  },
  clSetKernelArg: {
    parameters: [
      Kernel, // cl_kernel kernel
      "u32", // cl_uint arg_index
      "usize", // size_t arg_size
      "buffer", // const void* arg_value
    ],
    result: "i32", // cl_int
  },
  clSetKernelArgSVMPointer: {
    parameters: [
      Kernel, // cl_kernel kernel
      "u32", // cl_uint arg_index
      "u64", // const void* arg_value
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clSetKernelExecInfo: {
    parameters: [
      Kernel, // cl_kernel kernel
      "u32", // cl_kernel_exec_info param_name
      "usize", // size_t param_value_size
      "buffer", // const void* param_value
    ],
    result: "i32", // cl_int
    since: "2.0",
  },
  clGetKernelInfo: {
    parameters: [
      Kernel, // cl_kernel kernel
      "u32", // cl_kernel_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clGetKernelArgInfo: {
    parameters: [
      Kernel, // cl_kernel kernel
      "u32", // cl_uint arg_indx
      "u32", // cl_kernel_arg_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
    since: "1.2",
  },
  clGetKernelWorkGroupInfo: {
    parameters: [
      Kernel, // cl_kernel kernel
      Device, // cl_device_id device
      "u32", // cl_kernel_work_group_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clGetKernelSubGroupInfo: {
    parameters: [
      Kernel, // cl_kernel kernel
      Device, // cl_device_id device
      "u32", // cl_kernel_sub_group_info param_name
      "usize", // size_t input_value_size
      "buffer", // const void* input_value
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
    since: "2.1",
  },
} as const;

/** Events. */
export const eventFunctions = {
  clWaitForEvents: {
    parameters: [
      "u32", // cl_uint num_events
      "buffer", // const cl_event* event_list
    ],
    result: "i32", // cl_int
  },
  clGetEventInfo: {
    parameters: [
      Event, // cl_event event
      "u32", // cl_event_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
  clCreateUserEvent: {
    parameters: [
      Context, // cl_context context
      "buffer", // cl_int* errcode_ret
    ],
    result: Event, // cl_event
    since: "1.1",
  },
  clRetainEvent: {
    parameters: [
      Event, // cl_event event
    ],
    result: "i32", // cl_int
  },
  clReleaseEvent: {
    parameters: [
      Event, // cl_event event
    ],
    result: "i32", // cl_int
  },
  clSetUserEventStatus: {
    parameters: [
      Event, // cl_event event
      "i32", // cl_int execution_status
    ],
    result: "i32", // cl_int
    since: "1.1",
  },
  clSetEventCallback: {
    parameters: [
      Event, // cl_event event
      "i32", // cl_int command_exec_callback_type
      "u64", // void (*pfn_notify)(...)
      "u64", // void* user_data
    ],
    result: "i32", // cl_int
    since: "1.1",
  },
} as const;

/** Time stamps of commands. */
export const profilingFunctions = {
  clGetEventProfilingInfo: {
    parameters: [
      Event, // cl_event event
      "u32", // cl_profiling_info param_name
      "usize", // size_t param_value_size
      "buffer", // void* param_value
      "buffer", // size_t* param_value_size_ret
    ],
    result: "i32", // cl_int
  },
} as const;

/** Flush and finish. */
export const completionFunctions = {
  clFlush: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
    ],
    result: "i32", // cl_int
  },
  clFinish: {
    parameters: [
      CommandQueue, // cl_command_queue command_queue
    ],
    result: "i32", // cl_int
  },
} as const;
