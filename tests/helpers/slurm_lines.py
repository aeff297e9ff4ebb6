"""Lines that scontrol of SLURM 17.02 to 25.05 prints about a partition, a node and the configuration."""

PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default={default} QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden={hidden} MaxNodes=UNLIMITED "
    "MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n1 OverSubscribe=NO State=UP TotalCPUs=64 "
    "JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED\n"
)
END = "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s"
NODES = {
    "17.02": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=8 CPUAlloc=3 CPUErr=0 CPUTot=16 CPULoad=0.02 AvailableFeatures=(null) "
        "ActiveFeatures=(null) Gres=gpu:4 NodeAddr=n1 NodeHostName=n1 Version=17.02 OS=Linux RealMemory=512000 "
        "AllocMem=28500 FreeMem=510505 Sockets=2 Boards=1 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
        "MCS_label=N/A Partitions=gpu  BootTime=2018-04-24T17:18:32 SlurmdStartTime=2018-04-25T08:43:36 "
        f"CfgTRES=cpu=16,mem=500G AllocTRES=cpu=3,mem=28500M {END}",
        (16, 512000, 4),
    ),
    "20.11": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=32  CPUAlloc=0 CPUTot=64 CPULoad=0.01 AvailableFeatures=ib,tesla "
        "ActiveFeatures=ib,tesla Gres=gpu:tesla:4(S:0-1),nvme:1 NodeAddr=n1 NodeHostName=n1 Version=20.11.8 "
        "OS=Linux 3.10.0-1160.el7.x86_64 #1 SMP Mon Oct 19 16:18:59 UTC 2020  RealMemory=190000 AllocMem=0 "
        "FreeMem=180000 "
        "Sockets=2 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
        "Partitions=normal,gpu  BootTime=2021-09-01T10:00:00 SlurmdStartTime=2021-09-01T10:01:00 "
        f"CfgTRES=cpu=64,mem=190000M,billing=64,gres/gpu=4 AllocTRES= {END} Comment=(null)",
        (64, 190000, 4),
    ),
    "22.05": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=24 CPUTot=24 CPULoad=0.00 "
        "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:ampere:2(S:0) NodeAddr=n1 NodeHostName=n1 "
        "Version=22.05.2 "
        "OS=Linux 4.18.0-372.19.1.el8_6.x86_64 #1 SMP Tue Aug 2 16:19:42 UTC 2022  RealMemory=121856 AllocMem=0 "
        "FreeMem=127045 Sockets=24 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
        "Partitions=gpu  BootTime=2023-02-13T21:25:58 SlurmdStartTime=2023-02-14T00:25:43 "
        f"LastBusyTime=2023-02-26T02:14:04 CfgTRES=cpu=24,mem=119G,billing=24 AllocTRES= {END}",
        (24, 121856, 2),
    ),
    "23.11": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=16  CPUAlloc=24 CPUEfctv=32 CPUTot=32 CPULoad=24.00 "
        "AvailableFeatures=p100,P100 ActiveFeatures=p100,P100 Gres=gpu:2(S:0-31) NodeAddr=n1 NodeHostName=n1 "
        "Version=23.11.6 OS=Linux 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023  RealMemory=237568 "
        "AllocMem=178176 FreeMem=221788 Sockets=2 Boards=1 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
        "MCS_label=N/A Partitions=gpu  BootTime=2025-05-30T05:41:42 SlurmdStartTime=2025-05-30T05:44:29 "
        "LastBusyTime=2025-06-24T07:17:18 ResumeAfterTime=None CfgTRES=cpu=32,mem=232G,billing=1763704832,gres/gpu=2 "
        f"AllocTRES=cpu=24,mem=174G,gres/gpu=1 {END}",
        (32, 237568, 2),
    ),
    "24.11": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=8  CPUAlloc=1 CPUEfctv=14 CPUTot=16 CPULoad=6.90 AvailableFeatures=V9 "
        "ActiveFeatures=V9 Gres=gpu:a100:2(S:0-1) NodeAddr=n1 NodeHostName=n1 Version=24.11.1 "
        "OS=Linux 5.14.0-503.14.1.el9_5.x86_64 #1 SMP PREEMPT_DYNAMIC Fri Nov 15 12:04:32 UTC 2024  RealMemory=770000 "
        "AllocMem=3000 FreeMem=714574 Sockets=2 Boards=1 CoreSpecCount=2 CPUSpecList=7,15 MemSpecLimit=10000 "
        "State=MIXED "
        "ThreadsPerCore=1 TmpDisk=150000 Weight=10 Owner=N/A MCS_label=N/A Partitions=bigmem,gpu  "
        "BootTime=2025-05-09T11:39:03 SlurmdStartTime=2025-06-30T10:38:35 LastBusyTime=2025-07-23T13:36:20 "
        "ResumeAfterTime=None CfgTRES=cpu=14,mem=770000M,billing=201 AllocTRES=cpu=1,mem=3000M CurrentWatts=0 "
        "AveWatts=0 "
        "Comment=was Partitions=none before",
        (14, 760000, 2),
    ),
    "25.05": (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=24  CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.01 "
        "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h100:8 NodeAddr=n1 NodeHostName=n1 Version=25.05.3 "
        "OS=Linux 5.15.0-153-generic #163-Ubuntu SMP Thu Aug 7 16:37:18 UTC 2025  RealMemory=515711 AllocMem=0 "
        "FreeMem=490720 Sockets=2 Boards=1 State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
        "Partitions=cpu,memory,gpu  BootTime=2025-09-16T10:50:28 SlurmdStartTime=2025-09-18T10:59:22 "
        "LastBusyTime=2025-09-18T13:46:35 ResumeAfterTime=None CfgTRES=cpu=96,mem=515711M,billing=96 AllocTRES= "
        "CurrentWatts=0 AveWatts=0",
        (96, 515711, 8),
    ),
}
"""By version, a node and what it has for jobs: cores, memory in MB, and devices."""
CONFIGURATION = """\
Configuration data as of 2024-08-19T19:08:02
AccountingStorageBackupHost = (null)
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = {accounting}
AuthInfo                = socket=/var/run/munge/munge.socket.2
BOOT_TIME               = 2024-08-07T19:57:56
ClusterName             = demo
DefMemPerNode           = UNLIMITED
SchedulerParameters     = bf_window=2880,default_queue_depth=100
SLURM_VERSION           = {version}
TaskPlugin              = task/cgroup,task/affinity
TmpFS                   = /tmp

Slurmctld(primary) at n0 is UP
"""
ACCOUNTING = {"17.02": "accounting_storage/none", "25.05": "(null)"}
"""Type of the accounting storage without a database, by version; others have accounting_storage/slurmdbd."""


def show_configuration(version: str) -> str:
    return CONFIGURATION.format(version=version, accounting=ACCOUNTING.get(version, "accounting_storage/slurmdbd"))
