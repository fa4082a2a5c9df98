import contextlib

from torpor.base import site as module
from torpor.base.site import decode, gradient_of, here


def captured():
    return here()


def test_sites_are_lines_of_the_caller():
    place = decode(captured())
    line = captured.__code__.co_firstlineno + 1
    assert place.file == __file__
    assert (place.line, place.text, place.function) == (line, "here()", "captured")
    assert str(place) == f"{__file__}:{line}: here()"


def test_an_expression_over_lines_gives_its_first():
    site = here()  # the call that is captured
    assert decode(site).text.startswith("here")


def test_code_without_a_file_has_no_text():
    scope = {"here": here}
    exec(compile("site = here()", "<made>", "exec"), scope)
    place = decode(scope["site"])
    assert (place.file, place.line, place.text) == ("<made>", 1, "")


def test_the_gradient_of_a_line_is_told_from_the_line():
    site = captured()
    place, marked = decode(site), decode(gradient_of(site))
    assert marked[:3] == place[:3]
    assert marked.text == f"gradient of {place.text}"
    assert gradient_of(gradient_of(site)) == gradient_of(site) != site


def test_what_decorates_a_function_is_no_line_of_the_user():
    @contextlib.contextmanager
    def around():
        yield

    scope = {"here": here}
    exec(compile("def asked():\n    return here()", module.__file__, "exec"), scope)
    decorated = around()(scope["asked"])
    assert decode(decorated()).file == __file__
