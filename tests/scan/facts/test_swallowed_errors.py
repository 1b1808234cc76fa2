"""Handlers around a training that let it look as if it had ended well, and healthy twins."""

from __future__ import annotations

import textwrap

import pytest
from scanning import facts, scan

LOOP = """\
for x in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""
PRINTS = "    print(error)\n"


def swallowed(text: str) -> object:
    return facts(scan(f"import sys\nimport torch\n{text}")).get("code.swallows_errors")


def tried(body: str, handler: str = PRINTS, catches: str = "except Exception as error:", after: str = "") -> str:
    return f"try:\n{textwrap.indent(body, '    ')}{catches}\n{handler}{after}"


OF_TRAINER = "trainer = Trainer(model)\ntrainer.train()\n"
TELLS = "    tell(error)\n"
DIES = "    die(error)\n"
NOTES = "    errors.append(error)\n"
SAYS = "if errors:\n    raise SystemExit(1)\n"
IN_FUNCTION = f"def fit():\n{textwrap.indent(LOOP, '    ')}"


@pytest.mark.parametrize(
    "text",
    [
        tried(OF_TRAINER),
        tried(OF_TRAINER, catches="except:", handler="    traceback.print_exc()\n"),
        tried(OF_TRAINER, handler="    shutil.rmtree(folder)\n    logger.exception('the run ended')\n"),
        tried(OF_TRAINER, catches="except (KeyboardInterrupt, Exception) as error:"),
        tried(OF_TRAINER, handler="    logger.error('the run ended')\n"),
        f"def tell(error):\n    print(error)\n    tell(error)\n{tried(OF_TRAINER, handler=TELLS)}",
        tried(OF_TRAINER, after="runs.append('a')\n"),
        tried(LOOP),
        f"{IN_FUNCTION}{tried('fit()' + chr(10))}",
        f"def main():\n{textwrap.indent(tried(OF_TRAINER, handler='    return' + chr(10)), '    ')}\n"
        "if __name__ == '__main__':\n    main()\n",
        tried(OF_TRAINER, catches="except KeyboardInterrupt:\n    sys.exit(1)\nexcept BaseException as error:"),
    ],
)
def test_errors_of_the_training(text: str) -> None:
    assert swallowed(text) == "the training"


@pytest.mark.parametrize(
    "text",
    [
        OF_TRAINER,
        tried(OF_TRAINER, handler="    print(error)\n    raise\n"),
        tried(OF_TRAINER, handler="    raise SystemExit(1)\n"),
        tried(OF_TRAINER, handler="    sys.exit(1)\n"),
        tried(OF_TRAINER, handler="    failed = True\n"),
        tried(OF_TRAINER, handler="    return_codes[0] = 1\n"),
        tried(OF_TRAINER, handler="    logger.on_failure(error)\n"),
        tried(OF_TRAINER, handler="    wandb.finish(exit_code=1)\n"),
        tried(OF_TRAINER, handler="    trainer.train()\n"),
        tried(OF_TRAINER, catches="except KeyboardInterrupt:"),
        tried(OF_TRAINER, catches="except torch.cuda.OutOfMemoryError:"),
        tried(OF_TRAINER, catches="except Exception:\n    raise\nexcept BaseException as error:"),
        tried(OF_TRAINER, after="if not saved:\n    raise ValueError('nothing was saved')\n"),
        tried(OF_TRAINER, after="finally:\n    sys.exit(status)\n"),
        tried(OF_TRAINER, handler="    parser.error(str(error))\n"),
        f"options = argparse.ArgumentParser()\n{tried(OF_TRAINER, handler='    options.error(error)' + chr(10))}",
        tried(OF_TRAINER, handler="    os.killpg(0, signal.SIGTERM)\n"),
        tried(OF_TRAINER, handler="    signal.raise_signal(signal.SIGTERM)\n"),
        tried(OF_TRAINER, handler="    errors.append(error)\n", after="if errors:\n    sys.exit(1)\n"),
        f"errors = []\ndef main():\n{textwrap.indent(tried(OF_TRAINER, handler=NOTES), '    ')}main()\n{SAYS}",
        tried(OF_TRAINER, handler="    self.failures.add(error)\n"),
        tried(OF_TRAINER, handler="    queue.put(error)\n"),
        f"def die(error):\n    print(error)\n    sys.exit(1)\n{tried(OF_TRAINER, handler=DIES)}",
        f"def stop():\n    os._exit(1)\ndef die(error):\n    stop()\n{tried(OF_TRAINER, handler=DIES)}",
        f"def tell(error):\n    errors.append(error)\n{tried(OF_TRAINER, handler=TELLS)}",
        f"def die(error):\n    global status\n    status = 1\n{tried(OF_TRAINER, handler=DIES)}",
        f"def tell(error):\n    raise error\n{tried(OF_TRAINER, handler=TELLS)}",
        f"for fold in range(5):\n{textwrap.indent(tried(OF_TRAINER), '    ')}",
        f"def fit():\n{textwrap.indent(tried(OF_TRAINER), '    ')}for fold in range(5):\n    fit()\n",
        f"import streamlit\n{tried(OF_TRAINER)}",
        tried("setup()\n", after=OF_TRAINER),
        tried("setup()\n", after=f"else:\n{textwrap.indent(OF_TRAINER, '    ')}"),
    ],
)
def test_errors_that_are_told(text: str) -> None:
    assert swallowed(text) is None


def stepped(handler: str, catches: str = "except RuntimeError as error:") -> str:
    step = tried("".join(LOOP.splitlines(keepends=True)[1:]).replace("    ", ""), handler, catches)
    return f"for x in loader:\n{textwrap.indent(step, '    ')}"


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("    print(error)\n    continue\n", "a step"),
        ("    if 'out of memory' in str(error):\n        torch.cuda.empty_cache()\n    print(error)\n", "a step"),
        ("    if 'out of memory' not in str(error):\n        raise\n", None),
        ("    num_skipped += 1\n", None),
        ("    skipped.append((i, error))\n", None),
        ("    break\n", None),
    ],
)
def test_errors_of_a_step(handler: str, expected: str | None) -> None:
    assert swallowed(stepped(handler)) == expected


def test_memory_alone_is_no_error_of_a_step() -> None:
    assert swallowed(stepped("    continue\n", "except torch.cuda.OutOfMemoryError:")) is None
