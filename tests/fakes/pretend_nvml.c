/* NVIDIA's management library with two GPUs that only it knows, for machines without a driver. All else that a program
asks for is missing, as in an old driver. Structures and numbers are those of nvml.h. */

#include <stdio.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

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
