"""The Java client. Which of its public methods ran is counted by JaCoCo, in the client's own classes."""

import glob
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET

import clients
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "1.0.0"  # the only one that its registry has
DEPENDENCY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
NAME = "com.alibaba.opensandbox:"
# Interfaces, and the classes that are behind them.
BEHIND = {f"com/alibaba/opensandbox/sandbox/domain/services/{n}": f"com/alibaba/opensandbox/sandbox/infrastructure/adapters/service/{n}Adapter"
          for n in ("Filesystem", "Commands", "Metrics")}


def maven(*words, cwd="/"):
    return clients.must(["mvn", "-q", "-B", "-Dmaven.repo.local=" + clients.cache_dir("maven"), *words], cwd=cwd)


@pytest.fixture(scope="session")
def jars():
    def make(where):
        shutil.copy(os.path.join(HERE, "java", "pom.xml"), where)
        maven(DEPENDENCY + ":copy-dependencies", "-DoutputDirectory=" + os.path.join(where, "lib"), cwd=where)
    try:
        return sorted(glob.glob(os.path.join(clients.install("java-" + VERSION, make), "lib", "*.jar")))
    except (clients.Unavailable, FileNotFoundError) as e:
        clients.unavailable("Java SDK", NAME + "sandbox", VERSION, e)


def ran(report):
    """(class, method, descriptor) of what was entered."""
    return {(c.get("name"), m.get("name"), m.get("desc")) for c in ET.parse(report).getroot().iter("class") for m in c.iter("method")
            if any(n.get("type") == "METHOD" and n.get("covered") == "1" for n in m.iter("counter"))}


@clients.on_both
def test_java(place, jars, tmp_path):
    agent, cli = (next(j for j in jars if word in j) for word in ("agent", "nodeps"))
    path = ":".join(j for j in jars if "jacoco" not in j)
    subprocess.run(["javac", "-cp", path, "-d", tmp_path, os.path.join(HERE, "java", "Conformance.java")], check=True)
    counts = f"-javaagent:{agent}=destfile={tmp_path}/counts,includes=com.alibaba.opensandbox.sandbox.*"
    r = subprocess.run(["java", counts, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{tmp_path}:{path}", "Conformance"], capture_output=True,
                       text=True, env=place.environ(), timeout=600)
    stories = [line for line in r.stdout.splitlines() if not line.startswith("method ")]
    print("\n".join(stories))
    sdk = next(j for j in jars if j.endswith(f"/sandbox-{VERSION}.jar"))
    subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-jar", cli, "report", f"{tmp_path}/counts", "--classfiles", sdk, "--xml", f"{tmp_path}/report.xml", "--quiet"],
                   check=True, capture_output=True)
    seen = ran(f"{tmp_path}/report.xml")
    methods, worked = set(), set()
    for line in r.stdout.splitlines():
        if line.startswith("method "):
            _, cls, name, desc = line.split(" ")
            cls = cls.replace(".", "/")
            label = f"{cls.rsplit('/', 1)[1].replace('$', '.')}.{name}{desc[:desc.index(')') + 1]}"
            methods.add(label)
            if {(cls, name, desc), (BEHIND.get(cls), name, desc)} & seen:
                worked.add(label)
    clients.record("Java SDK", NAME + "sandbox", VERSION, place.runtime, methods, worked, [], "passed" if r.returncode == 0 else "failed")
    assert r.returncode == 0, "\n".join(stories)[-6000:] + r.stderr[-2000:]
    assert methods == worked, sorted(methods - worked)


@pytest.mark.parametrize("artifact,client", [("code-interpreter", "Java code interpreter"), ("sandbox-pool-redis", "Java pools in Redis")])
def test_java_not_published(artifact, client):
    def ask():
        try:
            maven(DEPENDENCY + ":get", f"-Dartifact={NAME}{artifact}:LATEST", "-Dtransitive=false")
        except (clients.Unavailable, FileNotFoundError) as e:
            return str(e)[str(e).find("Failed to resolve"):]
        return "it has been published since this suite was written, and is not in it"
    clients.unavailable(client, NAME + artifact, "", clients.remembered("maven-" + artifact, ask))
