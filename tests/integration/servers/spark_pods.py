"""
Runs what the containers of Spark's pods run, as local processes; and makes pods as Spark operators do.

As Spark's own ``entrypoint.sh`` does: ``spark-submit`` in client mode for a driver, the executor's
main class for an executor. The pod's volumes are folders, and paths of the image that lead there
are replaced. Names of services inside the cluster are in a hosts file for the JVM.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from airflow_streaming.launch.clusters.spark_operators import APACHE, KUBEFLOW
from airflow_streaming.launch.environment import driver_environment, properties_text
from airflow_streaming.launch.runtime import resolve_runtime
from tests.integration.servers.kubernetes import NAMESPACE, ApiServer
from tests.integration.servers.operators import owner_of
from tests.patience import PATIENCE


class SparkContainers:
    """
    :param runtime: The virtual environment whose Spark stands in for the image.
    :param folder: Where the pods' volumes and logs go.
    """

    def __init__(self, server: ApiServer, runtime: Path, folder: Path) -> None:
        image = resolve_runtime("spark", {"spark": str(runtime)})
        self._admin, self._home, self.folder = server.namespace(), image.spark_home, folder
        self._image = driver_environment({}, image, {})

    def __call__(self, pod: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        root = self.folder / pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        places = self._mount(pod, container, root)
        environment = self._environment(pod, container, root, places)
        arguments = [_placed(argument, places) for argument in container["args"]]
        command = (
            self._driver(arguments) if arguments[0] == "driver" else self._executor(environment)
        )
        with (root / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=root,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _driver(self, arguments: list[str]) -> list[str]:
        submit = str(self._home / "bin" / "spark-submit")
        address = ("--conf", "spark.driver.bindAddress=127.0.0.1", "--deploy-mode", "client")
        return [submit, *address, *arguments[1:]]

    def _executor(self, environment: Mapping[str, str]) -> list[str]:
        options = [v for k, v in sorted(environment.items()) if k.startswith("SPARK_JAVA_OPT_")]
        memory = environment["SPARK_EXECUTOR_MEMORY"]
        told = {
            "--driver-url": "SPARK_DRIVER_URL",
            "--executor-id": "SPARK_EXECUTOR_ID",
            "--cores": "SPARK_EXECUTOR_CORES",
            "--app-id": "SPARK_APPLICATION_ID",
            "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
            "--podName": "SPARK_EXECUTOR_POD_NAME",
        }
        values = [part for option, name in told.items() for part in (option, environment[name])]
        main = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
        # As entrypoint.sh has it; a class data archive counts only behind the same class path.
        classes = f"{self._home}/conf/:{self._home}/jars/*"
        heap = (f"-Xms{memory}", f"-Xmx{memory}", "-cp", classes)
        return ["java", *options, *heap, main, *values, "--hostname", "127.0.0.1"]

    def _mount(
        self, pod: Mapping[str, Any], container: Mapping[str, Any], root: Path
    ) -> dict[str, str]:
        """Lay out the config maps and secrets of a pod; return where each mount point is."""
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        contents = {volume["name"]: self._files(volume) for volume in pod["spec"]["volumes"]}
        root.mkdir(parents=True)
        places, files = {}, {}
        for volume, held in contents.items():
            place = root / volume
            place.mkdir()
            if volume in mounts:
                places[mounts[volume]] = str(place)
            for name, data in held.items():
                files[place / name] = data
        for path, data in files.items():
            content = data
            if path.suffix == ".properties":
                content = _placed(data.decode(), places).encode()
            path.write_bytes(content)
        return places

    def _files(self, volume: Mapping[str, Any]) -> dict[str, bytes]:
        if "configMap" in volume:
            found = self._admin.ask("GET", f"configmaps/{volume['configMap']['name']}").body
            return {name: text.encode() for name, text in found.get("data", {}).items()}
        if "secret" in volume:
            return self._secret(volume["secret"]["secretName"])
        return {}

    def _secret(self, name: str) -> dict[str, bytes]:
        found = self._admin.ask("GET", f"secrets/{name}").body
        return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}

    def _environment(
        self,
        pod: Mapping[str, Any],
        container: Mapping[str, Any],
        root: Path,
        places: Mapping[str, str],
    ) -> dict[str, str]:
        name = pod["metadata"]["name"]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        found = {}
        for variable in container.get("env", []):
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                reference = source["secretKeyRef"]
                value = self._secret(reference["name"])[reference["key"]].decode()
            else:
                value = variable.get("value", "")
            found[variable["name"]] = _placed(value, places)
        hosts = root / "hosts"
        services = self._admin.ask("GET", "services").body["items"]
        names = [service["metadata"]["name"] for service in services]
        known = [f"127.0.0.1 {one} {one}.{NAMESPACE}.svc" for one in names]
        own = f"127.0.0.1 {socket.gethostname()}"
        hosts.write_text("\n".join(["127.0.0.1 localhost", own, *known, ""]))
        return {
            **self._image,
            "PATH": os.environ["PATH"],
            "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={hosts} -XX:TieredStopAtLevel=1",
            **found,
        }


def _placed(text: str, places: Mapping[str, str]) -> str:
    for inside, outside in places.items():
        text = text.replace(inside, outside)
    return text


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a resource asks Spark's submission for."""

    conf: Mapping[str, str]
    main: str
    arguments: list[str]


def _asked_of_apache(resource: Mapping[str, Any]) -> _Asked:
    # SparkAppSubmissionWorker and SparkAppResourceSpecFactory at d5acafd.
    spec, name = resource["spec"], resource["metadata"]["name"]
    conf = {
        "spark.app.id": f"{name}-0",
        "spark.authenticate": "true",
        "spark.io.encryption.enabled": "true",
        "spark.kubernetes.driver.annotateExitException": "true",
        "spark.kubernetes.executor.useDriverPodIP": "true",
        "spark.kubernetes.executor.deleteOnTermination": "false",
        **spec["sparkConf"],
        **_labels("spark.operator/spark-app-name", name),
        "spark.app.name": name,
    }
    return _Asked(conf=conf, main=spec["pyFiles"], arguments=spec["driverArgs"])


def _asked_of_kubeflow(resource: Mapping[str, Any]) -> _Asked:
    # buildSparkSubmitArgs at 38082f3.
    spec, name = resource["spec"], resource["metadata"]["name"]
    conf = {
        **spec["sparkConf"],
        "spark.app.name": name,
        "spark.submit.pyFiles": ",".join(spec["deps"]["pyFiles"]),
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.pyspark.pythonVersion": spec["pythonVersion"],
        "spark.kubernetes.driver.pod.name": spec["driver"]["podName"],
        **_labels("sparkoperator.k8s.io/app-name", name),
    }
    return _Asked(conf=conf, main=spec["mainApplicationFile"], arguments=spec["arguments"])


def _labels(label: str, value: str) -> dict[str, str]:
    return {f"spark.kubernetes.{role}.label.{label}": value for role in ("driver", "executor")}


_ASKED: Final = {APACHE: _asked_of_apache, KUBEFLOW: _asked_of_kubeflow}


class SparkSubmission:
    """
    Makes the driver's pod of a resource by Spark's own submission code, as both operators do.

    :param runtime: The virtual environment with the Spark that submits.
    :param folder: Where each submission has a folder.
    """

    def __init__(self, server: ApiServer, kind: str, runtime: Path, folder: Path) -> None:
        image = resolve_runtime("spark", {"spark": str(runtime)})
        self._submit = str(image.spark_home / "bin" / "spark-submit")
        self._server, self._kind, self._folder = server, kind, folder
        self._environment = {**driver_environment({}, image, {}), "PATH": os.environ["PATH"]}

    def __call__(self, resource: Mapping[str, Any]) -> None:
        asked, name = _ASKED[self._kind](resource), resource["metadata"]["name"]
        folder = self._folder / name
        folder.mkdir(parents=True)
        template, properties = folder / "template.json", folder / "submit.properties"
        config = folder / "kubeconfig"
        container = "spark-kubernetes-driver"
        pod = {
            "metadata": {"ownerReferences": [owner_of(resource)]},
            "spec": {"containers": [{"name": container}]},
        }
        template.write_text(json.dumps(pod))
        conf = {
            **asked.conf,
            "spark.kubernetes.driver.podTemplateFile": str(template),
            "spark.kubernetes.driver.podTemplateContainerName": container,
        }
        properties.write_text(properties_text(conf))
        config.write_text(self._server.credentials("admin", by_front=True).kubeconfig())
        master = ("--master", f"k8s://{self._server.front}", "--deploy-mode", "cluster")
        options = (*master, "--properties-file", str(properties))
        with (folder / "log").open("ab") as log:
            subprocess.run(
                [self._submit, *options, asked.main, *asked.arguments],
                env={**self._environment, "KUBECONFIG": str(config)},
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
                check=False,
            )
