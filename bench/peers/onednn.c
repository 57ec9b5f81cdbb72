// oneDNN, with layouts of its own choice where it has one.
#include "serve.h"

#include <dnnl.h>

#if DNNL_VERSION_MAJOR != 2
#error "this peer is written for oneDNN 2"
#endif

#define CHECK(call) if ((call) != dnnl_success) return #call " fails"

typedef dnnl_memory_desc_t desc;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_primitive_t primitive;
static dnnl_exec_arg_t args[4];
static void *blocks[4];
static int used;

static void run(void) {
  dnnl_primitive_execute(primitive, stream, used, args);
  dnnl_stream_wait(stream);
}

static void drop(void) {
  if (primitive) dnnl_primitive_destroy(primitive);
  primitive = NULL;
  while (used > 0) {
    dnnl_memory_destroy(args[--used].memory);
    free(blocks[used]);
  }
}

static const char *add(int arg, const desc *layout) {
  blocks[used] = allocate(dnnl_memory_desc_get_size(layout));
  args[used].arg = arg;
  CHECK(dnnl_memory_create(&args[used].memory, layout, engine, blocks[used]));
  used++;
  return NULL;
}

// Makes the primitive of an operation and its arguments, in the layouts that it asks for.
static const char *make(const void *operation, int weighted) {
  dnnl_primitive_desc_t description;
  CHECK(dnnl_primitive_desc_create(&description, operation, NULL, engine, NULL));
  CHECK(dnnl_primitive_create(&primitive, description));
  const char *problem = add(DNNL_ARG_SRC, dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0));
  if (!problem && weighted) {
    problem = add(DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0));
  }
  if (!problem) {
    problem = add(DNNL_ARG_DST, dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0));
  }
  dnnl_primitive_desc_destroy(description);
  return problem;
}

static const char *matmul(long n) {
  desc square;
  dnnl_matmul_desc_t operation;
  CHECK(dnnl_memory_desc_init_by_tag(&square, 2, (dnnl_dims_t){n, n}, dnnl_f32, dnnl_ab));
  CHECK(dnnl_matmul_desc_init(&operation, &square, &square, NULL, &square));
  return make(&operation, 1);
}

static const char *gelu(long n) {
  desc line;
  dnnl_eltwise_desc_t operation;
  CHECK(dnnl_memory_desc_init_by_tag(&line, 1, (dnnl_dims_t){n}, dnnl_f32, dnnl_a));
  CHECK(dnnl_eltwise_forward_desc_init(
      &operation, dnnl_forward_inference, dnnl_eltwise_gelu_tanh, &line, 0, 0));
  return make(&operation, 0);
}

static const char *softmax(long n) {
  desc square;
  dnnl_softmax_v2_desc_t operation;
  CHECK(dnnl_memory_desc_init_by_tag(&square, 2, (dnnl_dims_t){n, n}, dnnl_f32, dnnl_ab));
  CHECK(dnnl_softmax_v2_forward_desc_init(
      &operation, dnnl_forward_inference, dnnl_softmax_accurate, &square, &square, 1));
  return make(&operation, 0);
}

static const char *layernorm(long n) {
  desc square, line;
  dnnl_layer_normalization_desc_t operation;
  CHECK(dnnl_memory_desc_init_by_tag(&square, 2, (dnnl_dims_t){n, n}, dnnl_f32, dnnl_ab));
  CHECK(dnnl_memory_desc_init_by_tag(&line, 1, (dnnl_dims_t){n}, dnnl_f32, dnnl_a));
  CHECK(dnnl_layer_normalization_forward_desc_init(
      &operation, dnnl_forward_inference, &square, NULL, 1e-5f, dnnl_use_scale | dnnl_use_shift));
  const char *problem = make(&operation, 0);
  if (!problem) problem = add(DNNL_ARG_SCALE, &line);
  return problem ? problem : add(DNNL_ARG_SHIFT, &line);
}

static const char *conv2d(long batch) {
  desc x, w, y;
  dnnl_convolution_desc_t operation;
  dnnl_dims_t one = {1, 1};
  dnnl_format_tag_t any = dnnl_format_tag_any;
  CHECK(dnnl_memory_desc_init_by_tag(&x, 4, (dnnl_dims_t){batch, 16, 28, 28}, dnnl_f32, any));
  CHECK(dnnl_memory_desc_init_by_tag(&w, 4, (dnnl_dims_t){32, 16, 3, 3}, dnnl_f32, any));
  CHECK(dnnl_memory_desc_init_by_tag(&y, 4, (dnnl_dims_t){batch, 32, 28, 28}, dnnl_f32, any));
  CHECK(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training,
      dnnl_convolution_direct, &x, &w, NULL, &y, one, one, one));
  return make(&operation, 1);
}

static const char *prepare(const char *kind, long size) {
  drop();
  if (!strcmp(kind, "matmul")) return matmul(size);
  if (!strcmp(kind, "gelu")) return gelu(size);
  if (!strcmp(kind, "softmax")) return softmax(size);
  if (!strcmp(kind, "layernorm")) return layernorm(size);
  if (!strcmp(kind, "conv2d")) return conv2d(size);
  return "not offered";
}

int main(void) {
  char title[64];
  const dnnl_version_t *version = dnnl_version();
  sprintf(title, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
      dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success) {
    fprintf(stderr, "oneDNN has no engine for this processor\n");
    return 1;
  }
  return serve(title, 0);
}
