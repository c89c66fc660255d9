# SPDX-License-Identifier: Apache-2.0
"""identity.py KILN STUBS MACHINES: kiln info on libraries without a GPU.

Each check is named by its scenario and runs where the build has the drivers
that it asks for. Exit status 77: it has none of them.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

kiln, stubs, machines = sys.argv[1:4]
work = tempfile.mkdtemp()
opened = os.path.join(work, "opened")


def machine(tree):
    """A folder made of MACHINES/TREE.tree; None: one without any file."""
    root = tempfile.mkdtemp(dir=work)
    for line in open(os.path.join(machines, tree + ".tree")) if tree else []:
        if not line.startswith("/"):
            continue
        path, mark, rest = line.rstrip("\n").split(" ", 2)
        path = root + path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if mark == "->":
            os.symlink(rest, path)
            continue
        with open(path, "a") as file:
            if mark == "=":
                file.write(rest + "\n")
        if mark == "!":
            os.chmod(path, int(rest, 8))
    return root


def run(*arguments, tree=None, cuda="devices=0", vulkan="", **more):
    """Exit status, stdout as bytes, stderr."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("KILN_", "CUDA_"))}
    env.update(KILN_SYSFS_ROOT=machine(tree), KILN_STUB_CUDA=cuda,
               KILN_STUB_VULKAN=vulkan, KILN_STUB_VULKAN_OPENED=opened,
               LD_LIBRARY_PATH=stubs + ":" + env.get("LD_LIBRARY_PATH", ""),
               **more)
    done = subprocess.run([kiln, "info", "--json", *arguments], env=env,
                          capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def info(expected=0, **how):
    code, out, err = run(**how)
    assert code == expected, (code, err)
    return json.loads(out.decode("utf-8", "strict"))


def cards(**how):
    """Cards but for the CPU."""
    return [card for card in info(**how)["cards"]
            if "cpu:0" not in selectors(card)]


def selectors(card):
    return [device["selector"] for device in card["devices"]]


def absence(card, driver):
    return [row["reason"] for row in card["absent"]
            if row["driver"] == driver]


# ---- Vulkan ----

def p18_unknown_address(_=("vulkan",)):
    found = cards(vulkan="discrete,82:00.1,11,A;discrete,,11,B;cpu,,11,C")
    assert [c["pci"] for c in found] == ["0000:82:00.1", None, None], found
    assert [selectors(c) for c in found] == [
        ["vulkan:discrete:0"], ["vulkan:discrete:1"], ["vulkan:cpu:0"]], found
    assert "PCI unknown" in found[1]["alone"]


def p18_two_drivers_one_card(_=("vulkan",)):
    found = cards(vulkan="discrete,03:00.0,11,A;discrete,03:00.0,12,B",
                  tree="two")
    card = found[1]
    assert card["pci"] == "0000:03:00.0" and card["numa_node"] == 0
    assert selectors(card) == ["vulkan:discrete:0", "vulkan:discrete:1"]
    assert card["memory_bytes"] == 8 << 30
    assert len(found) == 3


def p19_software_only(_=("vulkan",)):
    software = "cpu,,22,llvmpipe"
    code, out, _ = run("--device", "auto", vulkan=software)
    assert code == 0
    assert json.loads(out)["devices"][0]["selector"] == "cpu:0"
    code, out, err = run("--device", "vulkan", vulkan=software)
    assert (code, out) == (2, b"") and "vulkan:cpu" in err, err
    assert not os.path.exists(opened), "a device was opened"
    code, out, err = run("--device", "vulkan:cpu", vulkan=software)
    assert (code, out) == (1, b""), (code, err)
    assert open(opened).read() == "llvmpipe\n"
    os.unlink(opened)


def p20_refused_with_a_list(_=("vulkan",)):
    old = "discrete,01:00.0,11,Old,1.2;discrete,02:00.0,12,Small,int64"
    found = cards(vulkan=old)
    reasons = [d["refused"] for c in found for d in c["devices"]]
    assert any("Vulkan 1.2" in r for r in reasons), reasons
    assert any("shaderInt64" in r for r in reasons), reasons
    code, _, err = run("--device", "pci:02:00.0", vulkan=old)
    assert code == 1 and "shaderInt64" in err, err
    code, out, _ = run("--device", "auto", vulkan=old)
    assert json.loads(out)["devices"][0]["selector"] == "cpu:0"


def p20_no_device(_=("vulkan",)):
    found = cards(tree="two")
    assert all(absence(card, "vulkan") for card in found), found


def p43_odd_names(_=("vulkan",)):
    odd = r'discrete,01:00.0,11,a"b\x0a\x01\xc3\xa9;' \
        r'discrete,02:00.0,12,\xff;discrete,03:00.0,13,' + 250 * "n"
    names = [card["name"] for card in cards(vulkan=odd)]
    assert names[0] == 'a"b\n\x01\u00e9', names
    assert names[1] == "\ufffd", names
    assert set(names[2]) == {"n"} and len(names[2]) > 100, names


def p44_listing_opens_nothing(_=("vulkan",)):
    cards(vulkan="discrete,01:00.0,11,A;cpu,,22,B")
    assert not os.path.exists(opened), "a device was opened"


# ---- CUDA ----

def p16_order(_=("cuda",)):
    found = cards(cuda="devices=2 pci=3b", tree="two")
    addresses = [card["pci"] for card in found]
    assert addresses == ["0000:02:00.0", "0000:03:00.0", "0000:3b:00.0",
                         "0000:3c:00.0", "0000:82:00.0"], addresses
    assert selectors(found[2]) == ["cuda:0"]
    assert found[2]["devices"][0]["uuid"].startswith("GPU-")
    assert absence(found[1], "cuda") == ["CUDA does not show the card"]


def p17_slices(_=("cuda",)):
    card = cards(cuda="devices=1 pci=3b slice=1")[0]
    device = card["devices"][0]
    assert card["pci"] == "0000:3b:00.0" and device["slice"], card
    assert device["uuid"].startswith("MIG-") and not card["memory_bytes"]


def p18_function(_=("cuda",)):
    found = cards(cuda="devices=1 pci=3b function=1")
    assert found[0]["pci"] == "0000:3b:00.1", found


def p18_twins(_=("cuda",)):
    found = cards(cuda="devices=4 pci=10 uuid=same")
    assert len(found) == 4 and len({c["pci"] for c in found}) == 4, found
    assert len({c["uuid"] for c in found}) == 1
    code, _, err = run("--device", "uuid:" + found[0]["uuid"],
                       cuda="devices=4 pci=10 uuid=same")
    assert code == 2 and "more than one" in err, err


def p20_old_driver(_=("cuda",)):
    old = "version=10020"
    found = cards(cuda=old, tree="two")
    reason, = absence(found[1], "cuda")
    assert "10.2" in reason and "11.0" in reason, reason
    code, out, err = run("--device", "cuda", cuda=old)
    assert code and not out and "KILN_ERR_DRIVER_TOO_OLD" in err, err


def p44_no_context(_=("cuda",)):
    # Whoever made a context would fail.
    cards(cuda="devices=4 fail=cuDevicePrimaryCtxRetain:1:2")


# ---- both ----

def p18_both_ways(_=("cuda", "vulkan")):
    found = cards(cuda="devices=2 pci=82", tree="two",
                  vulkan="discrete,82:00.0,11,A;discrete,82:00.0,12,B")
    card = [c for c in found if c["pci"] == "0000:82:00.0"][0]
    assert selectors(card) == ["cuda:0", "vulkan:discrete:0",
                               "vulkan:discrete:1"], card
    assert card["memory_bytes"] == 4 << 30, card
    assert not card["absent"] and card["numa_node"] == 1


def main():
    built = {driver for driver in ("cuda", "vulkan")
             if driver in info()["build"]["drivers"] and
             os.path.exists(os.path.join(stubs, "lib%s.so.1" % driver))}
    done = 0
    for name, check in list(globals().items()):
        if name[0] != "p" or not name[1:3].isdigit():
            continue
        needs = set(check.__defaults__[0])
        if not needs <= built:
            print("skipped: %s: no %s" % (name, " ".join(needs - built)))
            continue
        try:
            check()
        except AssertionError as error:
            sys.exit("%s: %r" % (name, error))
        done += 1
    print("%d checks" % done)
    return 0 if done else 77


try:
    code = main()
finally:
    shutil.rmtree(work)
sys.exit(code)
