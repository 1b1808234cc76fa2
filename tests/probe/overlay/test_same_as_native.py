"""Random file operations, done natively in one folder and through the overlay in another: every result, every error
and the final view must agree, and the real files below the overlay must not change."""

import glob
import os
import pathlib
import shutil
import stat
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from overlaid import Overlay

overlay = Overlay()

NAMES = st.sampled_from(["a", "b", "c", "f", "link", "dlink"])
PLANTED = ["a", "b", "f", "link", "dlink", "a/b", "a/f", "a/b/c", "a/b/f", "a/link", "dlink/b", "dlink/f"]
PATHS = st.one_of(st.sampled_from(PLANTED), st.lists(NAMES, min_size=1, max_size=3).map("/".join))
TARGETS = st.one_of(PATHS, st.sampled_from(["f", "../f", "a", ".", "..", "missing", "link"]))
DATA = st.sampled_from(["", "one", "two two"])
MODES = st.sampled_from(["w", "a", "x", "r+", "w+", "a+", "r"])
FLAGS = st.sampled_from(
    [
        os.O_RDONLY,
        os.O_WRONLY,
        os.O_RDWR | os.O_CREAT,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL,
        os.O_WRONLY | os.O_TRUNC,
        os.O_RDONLY | os.O_CREAT,
        os.O_RDONLY | os.O_NOFOLLOW,
        os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW,
        os.O_RDONLY | os.O_DIRECTORY,
    ]
)


def plant(root):
    """The files that were there before the run."""
    os.makedirs(f"{root}/a/b/c")
    os.makedirs(f"{root}/b")
    for name, text in {"f": "old", "a/f": "old a", "a/b/f": "old b", "a/b/c/f": "deep"}.items():
        with open(f"{root}/{name}", "w") as file:
            file.write(text)
    os.symlink("f", f"{root}/link")
    os.symlink("a", f"{root}/dlink")
    os.symlink("../nowhere", f"{root}/a/link")
    os.chmod(f"{root}/a/f", 0o640)


def view(root):
    """{relative path: what is there}, by lstat, listdir, readlink and open."""
    found = {}
    todo = [""]
    while todo:
        folder = todo.pop()
        for name in os.listdir(f"{root}/{folder}"):
            path = f"{folder}/{name}".lstrip("/")
            status = os.lstat(f"{root}/{path}")
            content = None
            if stat.S_ISDIR(status.st_mode):
                todo.append(path)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(f"{root}/{path}")
            else:
                with open(f"{root}/{path}", "rb") as file:
                    content = file.read()
            found[path] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), content)
    return found


def write(path, mode, data):
    with open(path, mode) as file:
        if mode != "r":
            file.write(data)
        if "+" in mode or mode == "r":
            file.seek(0)
            return file.read()
        return os.path.basename(file.name), file.tell()


def low_open(path, flags):
    descriptor = os.open(path, flags, 0o644)
    try:
        return stat.S_IFMT(os.fstat(descriptor).st_mode), os.fstat(descriptor).st_size * bool(flags & os.O_CREAT)
    finally:
        os.close(descriptor)


def scan(path):
    with os.scandir(path) as entries:
        return sorted(
            (
                e.name,
                e.is_dir(),
                e.is_file(),
                e.is_symlink(),
                e.is_dir(follow_symlinks=False),
                e.path == f"{path}/{e.name}",
            )
            for e in entries
        )


def relative(root, paths):
    return sorted(os.path.relpath(path, root) for path in paths if path is not None)


def times(path):
    os.utime(path, ns=(10**18, 10**18 + 7))
    return os.stat(path).st_mtime_ns


class SameAsNative(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.base = os.path.realpath(tempfile.mkdtemp())
        self.roots = [f"{self.base}/native", f"{self.base}/overlay"]
        for root in self.roots:
            plant(root)
        self.real = view(self.roots[1])
        run_dir = f"{self.base}/run"
        os.mkdir(run_dir)
        overlay.install({"protected": [self.roots[1]], "exempt": ["/"], "run_id": "r", "run_dir": run_dir})

    def teardown(self):
        if not hasattr(self, "base"):
            return
        native = view(self.roots[0])
        overlay.uninstall()
        assert view(self.roots[1]) == self.real
        assert view(self.roots[0]) == native, "the other folder is no reference: it was redirected too"
        shutil.rmtree(self.base)

    def both(self, operation):
        """Do it in both folders: the same answer, or the same error naming the same files."""
        native, ours = (self.outcome(operation, root) for root in self.roots)
        assert ours == native

    def is_inside(self, path, folder):
        inner, outer = (os.path.realpath(f"{self.roots[0]}/{name}") for name in (path, folder))
        return f"{inner}/".startswith(f"{outer}/")

    @staticmethod
    def outcome(operation, root):
        try:
            return operation(root)
        except shutil.Error as error:
            return "shutil.Error", str(error).replace(root, "")
        except OSError as error:
            names = [str(name).replace(root, "") for name in (error.filename, error.filename2)]
            return type(error), error.errno, names

    @invariant()
    def same_view(self):
        if hasattr(self, "roots"):
            assert view(self.roots[1]) == view(self.roots[0])

    @rule(path=PATHS, mode=MODES, data=DATA)
    def opens(self, path, mode, data):
        self.both(lambda root: write(f"{root}/{path}", mode, data))

    @rule(path=PATHS, flags=FLAGS)
    def opens_low(self, path, flags):
        self.both(lambda root: low_open(f"{root}/{path}", flags))

    @rule(path=PATHS)
    def makes_folder(self, path):
        self.both(lambda root: os.mkdir(f"{root}/{path}"))

    @rule(path=PATHS, exist_ok=st.booleans())
    def makes_folders(self, path, exist_ok):
        self.both(lambda root: os.makedirs(f"{root}/{path}", exist_ok=exist_ok))

    @rule(path=PATHS, name=st.sampled_from(["unlink", "rmdir"]))
    def removes(self, path, name):
        self.both(lambda root: getattr(os, name)(f"{root}/{path}"))

    @rule(path=PATHS)
    def removes_tree(self, path):
        self.both(lambda root: shutil.rmtree(f"{root}/{path}"))

    @rule(source=PATHS, to=PATHS, name=st.sampled_from(["rename", "replace", "link"]))
    def two_paths(self, source, to, name):
        self.both(lambda root: getattr(os, name)(f"{root}/{source}", f"{root}/{to}"))

    @rule(source=PATHS, to=PATHS, name=st.sampled_from(["copyfile", "copy2", "copytree", "move"]))
    def shutil_two_paths(self, source, to, name):
        if name == "copytree" and self.is_inside(to, source):
            return  # natively endless
        keywords = {"symlinks": True} if name == "copytree" else {}
        self.both(lambda root: relative(root, [getattr(shutil, name)(f"{root}/{source}", f"{root}/{to}", **keywords)]))

    @rule(text=TARGETS, path=PATHS)
    def links(self, text, path):
        self.both(lambda root: os.symlink(text, f"{root}/{path}"))

    @rule(path=PATHS, mode=st.sampled_from([0o600, 0o644, 0o755]))
    def changes_mode(self, path, mode):
        self.both(lambda root: os.chmod(f"{root}/{path}", mode))

    @rule(path=PATHS, length=st.integers(0, 5))
    def truncates(self, path, length):
        self.both(lambda root: os.truncate(f"{root}/{path}", length))

    @rule(path=PATHS)
    def sets_times(self, path):
        self.both(lambda root: times(f"{root}/{path}"))

    @rule(path=PATHS)
    def reads(self, path):
        self.both(lambda root: scan(f"{root}/{path}"))
        self.both(lambda root: os.readlink(f"{root}/{path}"))
        self.both(lambda root: stat.S_IFMT(os.stat(f"{root}/{path}").st_mode))
        self.both(lambda root: os.access(f"{root}/{path}", os.W_OK))
        self.both(lambda root: os.path.relpath(os.path.realpath(f"{root}/{path}"), root))

    @rule(path=PATHS, dots=PATHS)
    def goes_up(self, path, dots):
        self.both(lambda root: write(f"{root}/{path}/../{dots}", "a", "up"))

    @rule(pattern=st.sampled_from(["*", "**", "*/f", "a/*", "dlink/*"]))
    def globs(self, pattern):
        self.both(lambda root: relative(root, glob.glob(f"{root}/{pattern}", recursive=True)))
        self.both(lambda root: relative(root, pathlib.Path(root).glob(pattern)))
        self.both(
            lambda root: sorted((os.path.relpath(top, root), sorted(d), sorted(f)) for top, d, f in os.walk(root))
        )

    @rule(path=PATHS, name=st.sampled_from(["f", "new"]))
    def by_descriptor(self, path, name):
        self.both(lambda root: in_folder(f"{root}/{path}", name))


def in_folder(path, name):
    """What dir_fd functions do: relative to an open folder."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder))
        return sorted(os.listdir(folder)), os.stat(name, dir_fd=folder).st_size
    finally:
        os.close(folder)


SameAsNative.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
TestSameAsNative = SameAsNative.TestCase
