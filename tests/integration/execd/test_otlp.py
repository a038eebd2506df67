"""Export of OpenTelemetry metrics: off by default, complete when on, in nobody's way when it fails."""

import http.server
import json
import queue
import socket
import threading

import pytest

from conftest import empty_ok, wait_for


class Collector:
    def __init__(self, status=200, host="127.0.0.1"):
        self.posts = queue.Queue()
        self.status = status
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts.put((self.path, self.headers, json.loads(body)))
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        self.http = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def next(self):
        return self.posts.get(timeout=60)

    def until(self, condition):
        while True:
            post = self.next()
            if condition(metrics_of(post)):
                return post

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def collector():
    c = Collector()
    yield c
    c.stop()


def metrics_of(post):
    (resource,) = post[2]["resourceMetrics"]
    (scope,) = resource["scopeMetrics"]
    return {m["name"]: m for m in scope["metrics"]}


def attrs(item):
    return {a["key"]: a["value"]["stringValue"] for a in item["attributes"]}


def env(port, **more):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_METRIC_EXPORT_INTERVAL": "100",
            "OPENSANDBOX_ID": "sb-1", "OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS": "team=red, zone=eu 1", **more}


def test_everything(launch, collector, tmp_path):
    e = launch(env=env(collector.port))
    empty_ok(e.get("/ping"))
    e.get("/files/info", params={"path": str(tmp_path)})
    e.get("/files/info", params={"path": str(tmp_path / "no")})
    e.get("/no/such/route")
    e.request("BREW", "/ping")
    path, headers, body = post = collector.until(
        lambda m: "execd.http.request.duration" in m
        and len(m["execd.http.request.duration"]["histogram"]["dataPoints"]) >= 5)
    assert path == "/v1/metrics"
    assert headers["Content-Type"] == "application/json"
    resource = attrs(body["resourceMetrics"][0]["resource"])
    assert resource["service.name"].startswith("opensandbox-execd-")
    assert resource["sandbox_id"] == "sb-1"
    assert body["resourceMetrics"][0]["scopeMetrics"][0]["scope"]["name"] == "opensandbox/execd"
    m = metrics_of(post)
    for metric in m.values():
        (data,) = [metric[k] for k in ("gauge", "sum", "histogram") if k in metric]
        for p in data["dataPoints"]:
            assert attrs(p)["team"] == "red" and attrs(p)["zone"] == "eu 1"
            assert int(p["timeUnixNano"]) >= int(p["startTimeUnixNano"]) > 10**18
            assert str(tmp_path) not in json.dumps(p)  # no paths in attributes

    points = {(attrs(p)["http_method"], attrs(p)["http_route"], attrs(p)["http_status_code"]): p
              for p in m["execd.http.request.duration"]["histogram"]["dataPoints"]}
    assert {("GET", "/ping", "200"), ("GET", "/files/info", "200"), ("GET", "/files/info", "404"),
            ("GET", "unknown", "404"), ("_OTHER", "unknown", "404")} <= set(points)
    p = points[("GET", "/ping", "200")]
    assert p["count"] == "1" and len(p["bucketCounts"]) == len(p["explicitBounds"]) + 1
    assert sum(map(int, p["bucketCounts"])) == 1
    assert m["execd.http.request.duration"]["unit"] == "ms"
    assert m["execd.http.request.duration"]["histogram"]["aggregationTemporality"] == 2

    files = {(attrs(p)["operation"], attrs(p)["result"]): p["count"]
             for p in m["execd.filesystem.operations.duration"]["histogram"]["dataPoints"]}
    assert files == {("info", "success"): "1", ("info", "failure"): "1"}
    assert int(m["execd.system.process.count"]["gauge"]["dataPoints"][0]["asInt"]) > 0
    assert 0 <= m["execd.system.cpu.usage"]["gauge"]["dataPoints"][0]["asDouble"] <= 100
    assert int(m["execd.system.memory.usage_bytes"]["gauge"]["dataPoints"][0]["asInt"]) > 0
    io = m["execd.system.network.io.bytes"]["sum"]
    assert io["isMonotonic"] and {attrs(p)["direction"] for p in io["dataPoints"]} == {"in", "out"}
    active = m["execd.system.network.connections.active"]["gauge"]
    assert {attrs(p)["protocol"] for p in active["dataPoints"]} == {"tcp", "udp"}


def test_route_is_a_template(launch, collector):
    e = launch(env=env(collector.port))
    e.delete("/session/some-id")
    post = collector.until(lambda m: "execd.http.request.duration" in m)
    (p,) = metrics_of(post)["execd.http.request.duration"]["histogram"]["dataPoints"]
    assert attrs(p)["http_route"] == "/session/:id" and "some-id" not in json.dumps(post[2])


@pytest.mark.parametrize("command,operation,result", [
    ("true", "run_command", "success"), ("exit 3", "run_command", "failure")])
def test_executions(launch, collector, command, operation, result):
    e = launch(env=env(collector.port))
    assert e.post("/command", json={"command": command}).status_code == 200
    post = collector.until(lambda m: "execd.execution.duration" in m)
    (p,) = metrics_of(post)["execd.execution.duration"]["histogram"]["dataPoints"]
    assert (attrs(p)["operation"], attrs(p)["result"], p["count"]) == (operation, result, "1")


def test_session_executions(launch, collector):
    e = launch(env=env(collector.port))
    sid = e.post("/session").json()["session_id"]
    assert e.post(f"/session/{sid}/run", json={"command": "true"}).status_code == 200
    post = collector.until(lambda m: "execd.execution.duration" in m)
    (p,) = metrics_of(post)["execd.execution.duration"]["histogram"]["dataPoints"]
    assert (attrs(p)["operation"], attrs(p)["result"]) == ("run_in_session", "success")


def test_metrics_endpoint_and_headers(launch, collector):
    launch(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_METRIC_EXPORT_INTERVAL": "100",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"http://localhost:{collector.port}/base/",
                "OTEL_EXPORTER_OTLP_HEADERS": "x-key=v 1,bad\r\nx=1"})
    path, headers, _ = collector.next()
    assert path == "/base/v1/metrics" and headers["x-key"] == "v 1"
    assert headers["Host"] == f"localhost:{collector.port}"


def test_cumulative(launch, collector):
    e = launch(env=env(collector.port))
    for _ in range(5):
        e.get("/ping")

    def count(m):
        points = m.get("execd.http.request.duration", {"histogram": {"dataPoints": []}})["histogram"]["dataPoints"]
        return sum(int(p["count"]) for p in points)

    collector.until(lambda m: count(m) == 5)
    e.get("/ping")
    collector.until(lambda m: count(m) == 6)


def test_last_words(launch, collector):
    """What was counted since the last export is sent when execd ends."""
    e = launch(env=env(collector.port, OTEL_METRIC_EXPORT_INTERVAL="3600000"))
    e.get("/ping")
    e.proc.terminate()
    assert "execd.http.request.duration" in metrics_of(collector.next())
    assert e.proc.wait(60) == 0


def test_off_by_default(launch):
    e = launch()
    assert "metrics" not in e.log()
    empty_ok(e.get("/ping"))


def test_https_is_refused_with_a_clear_warning(launch):
    e = launch(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector:4318"})
    empty_ok(e.get("/ping"))
    assert "metrics export is off" in e.log() and "https is not supported" in e.log()


@pytest.mark.parametrize("url", ["collector:4318", "http://", "http://a b", "grpc://x"])
def test_nonsense_is_refused_with_a_warning(launch, url):
    e = launch(env={"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    empty_ok(e.get("/ping"))
    assert "metrics export is off" in e.log()


def test_collector_is_down(launch):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    e = launch(env=env(port, OTEL_METRIC_EXPORT_INTERVAL="20"))
    wait_for(lambda: "metrics cannot be exported" in e.log(), "the warning")
    for _ in range(50):
        empty_ok(e.get("/ping"))
    assert e.log().count("metrics cannot be exported") == 1  # once, not with every try


def test_collector_refuses_then_recovers(launch, collector):
    collector.status = 503
    e = launch(env=env(collector.port))
    wait_for(lambda: "metrics cannot be exported" in e.log(), "the warning")
    collector.status = 200
    wait_for(lambda: "metrics are exported again" in e.log(), "the recovery")


def test_collector_never_answers(launch):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(5)
        e = launch(env=env(s.getsockname()[1], OTEL_METRIC_EXPORT_INTERVAL="20"))
        conn, _ = s.accept()
        fds = e.fds()
        for _ in range(50):
            empty_ok(e.get("/ping"))
        assert e.fds() <= fds + 2  # one export at a time
        conn.close()


def test_unknown_host(launch):
    e = launch(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://no-such-host.invalid:4318",
                    "OTEL_METRIC_EXPORT_INTERVAL": "50"})
    wait_for(lambda: "metrics cannot be exported" in e.log(), "the warning")
    empty_ok(e.get("/ping"))


def test_host_ip(launch):
    e = launch(env={"HOST_IP": "127.0.0.77", "OTEL_METRIC_EXPORT_INTERVAL": "50"})
    wait_for(lambda: "127.0.0.77:4318" in e.log(), "the endpoint")
