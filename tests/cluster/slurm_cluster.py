"""A real SLURM on this machine: a controller and three nodes, on loopback only, in their own folder.

To start it by hand, run `eval "$(python tests/cluster/slurm_cluster.py start FOLDER)"`. To stop it, run
`python tests/cluster/slurm_cluster.py stop FOLDER`. It needs no cgroups, systemd or accounting database. It reads and
writes nothing outside the folder, which also holds the socket and key of munge.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
NODES = ("n1", "n2", "n3")
START_SECONDS = 60

CONFIGURATION = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job is held until its old credential expires: 15 seconds instead of two minutes.
AuthInfo=socket={folder}/munge/socket,cred_expire=15
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
# These plugins work without cgroups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
# Check memory every second, and kill a job above its request.
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,sched_min_interval=200000,batch_sched_delay=1
# A node that was down comes back automatically, and its jobs are queued again.
ReturnToService=2
SlurmdTimeout=30
KillWait=2
# How long squeue shows finished jobs (default 300). Snakemake and the tests ask it how jobs ended.
MinJobAge=1800
MpiDefault=none
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000\n"
PARTITION = "PartitionName=work Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP\n"


def missing() -> list[str]:
    """Return the programs of SLURM and munge that are not installed."""
    return [name for name in PROGRAMS if not shutil.which(name, path=_path())]


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _free_ports(count: int) -> list[int]:
    """Return free ports on the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@dataclass(frozen=True)
class Cluster:
    """A cluster in a folder, running or not."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which the commands of SLURM use this cluster."""
        return {
            **os.environ,
            "PATH": f"{self.folder}/bin:{_path()}",
            "SLURM_CONF": f"{self.folder}/slurm.conf",
        }

    def start(self) -> None:
        """Write the configuration, start everything, and wait until all nodes are idle."""
        self._configure()
        munge = self.folder / "munge"
        self._spawn(
            *("munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={munge}/key"),
            *(f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"),
        )
        self._wait_for(lambda: (munge / "socket").exists(), "munged made no socket")
        self._spawn("slurmctld", "-D")
        for node in NODES:
            self._spawn("slurmd", "-D", "-N", node)
        self._wait_for(lambda: self.states() == ["idle"] * len(NODES), "the nodes did not become idle")

    def stop(self) -> None:
        """Cancel all jobs, then end the daemons by their recorded process ids."""
        self.run("scancel", "--full", "--user", getpass.getuser(), check=False)
        self._until(lambda: not self.run("squeue", "--noheader", check=False), 15)
        recorded = self.folder / "pids"
        pids = [int(line) for line in recorded.read_text().split()] if recorded.exists() else []
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for pid in reversed(pids):
                if self._is_ours(pid):
                    os.kill(pid, sent)
            self._until(lambda: not any(map(self._is_ours, pids)), 10)
        recorded.unlink(missing_ok=True)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command of SLURM and return its output."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=check, timeout=60
        ).stdout

    def states(self) -> list[str]:
        """Return the state of every node."""
        return self.run("sinfo", "--noheader", "--Node", "--format=%t", check=False).split()

    def set_down(self, node: str) -> None:
        """Set a node down, as an administrator would. Its jobs end."""
        self.run("scontrol", "update", f"NodeName={node}", "State=down", "Reason=test")

    def bring_back(self, node: str) -> None:
        """Resume the node, if it has not come back automatically."""
        self.run("scontrol", "update", f"NodeName={node}", "State=resume", check=False)

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for part in ("bin", "munge", "state", *(f"spool-{node}" for node in NODES)):
            (self.folder / part).mkdir()
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        # Snakemake removes every SLURM_... variable from the environment of srun, including SLURM_CONF.
        srun = self.folder / "bin/srun"
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        host = socket.gethostname().split(".")[0]
        controller, *nodes = _free_ports(1 + len(NODES))
        text = CONFIGURATION.format(
            folder=self.folder, host=host, user=getpass.getuser(), controller_port=controller
        )
        for name, port in zip(NODES, nodes, strict=True):
            text += NODE.format(name=name, host=host, port=port)
        (self.folder / "slurm.conf").write_text(text + PARTITION)

    def _spawn(self, *command: str) -> None:
        """Start a daemon and record its process id immediately."""
        with (self.folder / "daemons.log").open("a") as log, (self.folder / "pids").open("a") as pids:
            daemon = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            pids.write(f"{daemon.pid}\n")

    def _is_ours(self, pid: int) -> bool:
        """Return whether the process is alive and is a daemon of this cluster, not a new process with a reused id."""
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state != "Z" and f"SLURM_CONF={self.folder}/".encode() in environment

    def _wait_for(self, reached: Callable[[], bool], complaint: str) -> None:
        """Wait until the condition is true, or stop the cluster and raise an error."""
        if not self._until(reached, START_SECONDS):
            logs = [path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log"))]
            self.stop()
            raise RuntimeError(f"{complaint} in {START_SECONDS} s\n" + "\n".join(logs))

    @staticmethod
    def _until(reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until the condition is true, with a time limit."""
        deadline = time.monotonic() + seconds
        while not (there := reached()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return there


def main() -> None:
    """Start or stop a cluster by hand."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("start", "stop"):
        sys.exit("usage: slurm_cluster.py start|stop FOLDER")
    cluster = Cluster(Path(sys.argv[2]).resolve())
    if sys.argv[1] == "stop":
        cluster.stop()
    elif absent := missing():
        sys.exit(f"{', '.join(absent)}: not installed; run tests/cluster/install-slurm.")
    else:
        cluster.start()
        print(f"export SLURM_CONF={cluster.folder}/slurm.conf PATH={cluster.folder}/bin:$PATH")


if __name__ == "__main__":
    main()
