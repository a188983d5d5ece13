# SPDX-License-Identifier: Apache-2.0
"""Which tests prove a file, for `make check`. Rests on the names of folders and of suites.

Sources/X has its tests in Tests/XTests, and a changed suite has itself. What lies elsewhere stands in ELSEWHERE. The tests
named here are those that notice most in little time; `make test` has all of them."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Read the files of the repository, in a second, so they run after each change.
ALWAYS = "TidyTests"

# The beginning of a path, and its tests: modules, or suites as Module.Suite. The first that fits counts.
ELSEWHERE = (
    ("Sources/Martlet/Martlet.docc/AdminSDK.md", "MartletGatewayTests.AdminSDKPageTests"),
    ("Sources/Martlet/Martlet.docc/Console.md", "MartletGatewayTests"),
    ("Sources/Martlet/Martlet.docc/", ""),
    ("Sources/MartletBase/", "MartletWireTests MartletEngineTests"),
    ("Sources/MartletFiles/", "MartletStoreTests.PrivateFileTests MartletCommandTests"),
    ("Sources/MartletRows/", "MartletEngineTests MartletStoreTests"),
    ("Sources/MartletCluster/Forwarding/", "MartletForwardingTests"),
    ("Sources/MartletPostgres/LZ4", "MartletStoreTests"),
    ("Sources/MartletThreads/Metrics/", "MartletTests.RefusalCountTests MartletGatewayTests.RefusalCountTests"),
    ("Sources/MartletThreads/", "MartletTests.HeartbeatTests MartletTests.StoreTroubleTests"),
    ("Sources/MartletCommitter/", "MartletTests MartletClusterTests.ClusterWatchTests"),
    ("Sources/MartletNode/", "MartletClusterTests SimulationTests"),
    ("Sources/MartletPostgres/", "MartletClusterTests.PostgresLogTests"),
    ("Sources/MartletRing/", "MartletTransportTests"),
    ("Sources/MartletClientTLS/", "MartletTests.SecurePortTests MartletTests.SecureFailureTests"),
    ("Sources/MartletAnswers/", "MartletCommandTests MartletGatewayTests"),
    ("Sources/MartletConsole/", "MartletGatewayTests"),
    ("Sources/MartletWebPush/", "EndToEndTests.WebPushTests EndToEndTests.WebClientTests"),
    ("Sources/MartletCommand/", "MartletCommandTests EndToEndTests.CommandTests"),
    ("Sources/MartletSimulator/", "SimulationTests"),
    ("Sources/SimulatorCommand/", "SimulationTests"),
    ("Sources/Program/", "EndToEndTests.CommandTests EndToEndTests.StartTests"),
    ("Sources/CoreProgram/", "EndToEndTests.CommandTests"),
    ("CModules/CBitKernels/", "MartletBitsTests"),
    ("CModules/CConsoleFiles/", "MartletGatewayTests"),
    ("Protocol/", "MartletWireTests"),
    ("Tests/EngineBench/", "MartletEngineTests"),
    ("Tests/RedoBench/", "MartletStoreTests"),
    ("Tests/TLSPeers/", "MartletCryptoTests"),
    ("Tests/TestSupport/", "MartletTests.HostilityTests"),
    ("Tests/Vectors/", "MartletWireTests"),
    ("Tests/Faults/", "EndToEndTests.DiskFailureTests"),
    ("Tests/Python/admin_sdk", "MartletGatewayTests"),
    ("Tests/Python/discovery", "MartletGatewayTests"),
    ("Tests/Python/apns_", "EndToEndTests.APNsTests"),
    ("Tests/Python/push_service", "MartletBridgeTests"),
    ("Tests/Python/push_", "EndToEndTests.WebPushTests"),
    ("Tests/Python/web_clients", "EndToEndTests.WebClientTests"),
    ("Tests/Python/xmpp", "MartletXMPPTests"),
    ("Tests/Python/", "MartletWireTests.PythonTests MartletTests.EmbeddingTests"),
)


def suites(path):
    """The suites that a file of tests declares or extends."""
    text = (ROOT / path).read_text() if (ROOT / path).exists() else ""
    return re.findall(r"(?m)^(?:@\S.* )?(?:struct|final class|extension) (\w+Tests)\b", text)


def tests_of(path):
    """The tests of one changed file: modules and suites. Empty for a file that only ALWAYS reads."""
    for beginning, tests in ELSEWHERE:
        if path.startswith(beginning):
            return tests.split()
    parts = path.split("/")
    if parts[0] == "Sources" and len(parts) > 2:
        module = parts[1] + "Tests"
        return [module] if (ROOT / "Tests" / module).is_dir() else []
    if parts[0] == "Tests" and len(parts) > 2 and parts[1].endswith("Tests"):
        return [f"{parts[1]}.{suite}" for suite in suites(path)] or [parts[1]]
    return []


def tests_of_all(paths):
    """The tests of changed files, each once; a suite does not stand beside its module."""
    found = {ALWAYS}
    for path in paths:
        found.update(tests_of(path))
    return sorted(test for test in found if "." not in test or test.split(".")[0] not in found)


def expression(tests):
    """The regular expression by which `swift test --filter` runs these tests."""
    return "|".join("^" + test.replace(".", r"\.") + (r"\b" if "." in test else r"\.") for test in tests)


def python_folders(paths, folders):
    """Those of the folders with tests in Python that have a changed file."""
    return [folder for folder in folders if any(path.startswith(folder + "/") and path.endswith(".py") for path in paths)]
