/* NVIDIA's management library with two GPUs that only it knows, for machines without a driver. They have the counters of
a Hopper GPU. All else that a program asks for is missing, as in an old driver. Structures and numbers are those of
nvml.h. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, ARGUMENT_VERSION_MISMATCH = 25 };

typedef struct { const char *uuid; unsigned bus; } Gpu;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct {
    char old_bus_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} Pci;

static Gpu gpus[] = {{"GPU-11111111-pretended", 0x17}, {"GPU-22222222-pretended", 0x65}};

int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.0"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **gpu) {
    if (index > 1) return NOT_FOUND;
    *gpu = &gpus[index];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **gpu) {
    for (int i = 0; i < 2; i++)
        if (!strcmp(uuid, gpus[i].uuid)) { *gpu = &gpus[i]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Gpu *gpu, char *text, unsigned size) { snprintf(text, size, "%s", gpu->uuid); return OK; }
int nvmlDeviceGetName(Gpu *gpu, char *text, unsigned size) { snprintf(text, size, "Pretended GPU"); return OK; }
int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *now, unsigned *next) { return NOT_SUPPORTED; }
int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) { *major = 9; *minor = 0; return OK; }
int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *milliwatts) { *milliwatts = 300000 + gpu->bus; return OK; }
int nvmlDeviceGetTopologyCommonAncestor(Gpu *one, Gpu *other, unsigned *level) { *level = 40; return OK; }

int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory) {
    memory->total = 80ull << 30; memory->used = 1ull << 30; memory->free = 79ull << 30;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *rates) { rates->gpu = 50; rates->memory = 0; return OK; }

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", gpu->bus);
    return OK;
}

int nvmlDeviceGetCpuAffinity(Gpu *gpu, unsigned num_words, unsigned long *words) {
    for (unsigned i = 0; i < num_words; i++) words[i] = ~0ul;
    return OK;
}

typedef struct { unsigned version, is_supported; } GpmSupport;
typedef struct { Gpu *gpu; unsigned number; } GpmSample;
typedef struct {
    unsigned id;
    int result;
    double value;
    struct { char *short_name, *long_name, *unit; } info;
} GpmMetric;
typedef struct { unsigned version, num_metrics; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;

static unsigned num_samples = 0;

int nvmlGpmQueryDeviceSupport(Gpu *gpu, GpmSupport *support) {
    if (support->version != 1) return ARGUMENT_VERSION_MISMATCH;
    support->is_supported = 1;
    return OK;
}

int nvmlGpmSampleAlloc(GpmSample **sample) { *sample = calloc(1, sizeof(GpmSample)); return OK; }
int nvmlGpmSampleFree(GpmSample *sample) { free(sample); return OK; }

int nvmlGpmSampleGet(Gpu *gpu, GpmSample *sample) {
    sample->gpu = gpu;
    sample->number = ++num_samples;
    return OK;
}

int nvmlGpmMetricsGet(GpmMetrics *asked) {
    if (asked->version != 1) return ARGUMENT_VERSION_MISMATCH;
    if (asked->first->gpu != asked->second->gpu || asked->first->number >= asked->second->number) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < asked->num_metrics; i++) {
        GpmMetric *metric = &asked->metrics[i];
        metric->result = OK;
        switch (metric->id) {
            case 2: metric->value = 81.5; break;    /* NVML_GPM_METRIC_SM_UTIL */
            case 5: metric->value = 32.0; break;    /* NVML_GPM_METRIC_ANY_TENSOR_UTIL */
            case 10: metric->value = 44.25; break;  /* NVML_GPM_METRIC_DRAM_BW_UTIL */
            default: metric->result = NOT_SUPPORTED;
        }
    }
    return OK;
}
