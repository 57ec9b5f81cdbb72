// The limits of this machine, as the least time that a work could take: the multiplications and
// additions of a matmul at the rate of its FMA units, the bytes of a chain at the rate of a copy.
#include "serve.h"

// Chains of dependent FMAs, enough to fill the latency of every unit and few enough that they and two
// operands stay in registers: 32 of them, or 16.
#if defined(__AVX512F__)
#define WIDTH 16
#define CHAINS 24
#elif defined(__AVX__)
#define WIDTH 8
#define CHAINS 12
#elif defined(__aarch64__)
#define WIDTH 4
#define CHAINS 24
#else
#define WIDTH 4
#define CHAINS 12
#endif

typedef float vector __attribute__((vector_size(4 * WIDTH)));

static float *from, *to;
static long count; // floats to copy, or rounds of FMAs
static int copies;
static volatile float sink;

static void multiply(void) {
#pragma omp parallel
  {
    vector a = {1.f}, b = {.5f}, r[CHAINS];
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) r[i] = a + (float)i;
    const long passes = count / omp_get_num_threads();
    for (long k = 0; k < passes; k++) {
#pragma GCC unroll 24
      for (int i = 0; i < CHAINS; i++) r[i] = r[i] * b + a;
    }
    float sum = 0;
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sum += r[i][0];
#pragma omp critical
    sink = sum;
  }
}

static void copy(void) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < count; i++) to[i] = from[i];
}

static void run(void) {
  if (copies) copy();
  else multiply();
}

static const char *prepare(const char *kind, long size) {
  free(from);
  free(to);
  from = to = NULL;
  copies = !strcmp(kind, "chain");
  if (copies) {
    count = 3 * size; // five arrays read and one written, as three read and three written
    from = allocate(4 * count);
    to = allocate(4 * count);
    return NULL;
  }
  count = (double)size * size * size / (WIDTH * CHAINS);
  return strcmp(kind, "matmul") ? "not offered" : NULL;
}

int main(void) {
  char title[64];
  sprintf(title, "FMA and copy rates, %d threads, %d floats wide", omp_get_max_threads(), WIDTH);
  return serve(title, 1);
}
