"""The pages that compute what is typed into them, in a browser."""

import pytest

from tests import chromium

pytestmark = [chromium.NEEDED, pytest.mark.usefixtures("quiet")]


def test_views_of_the_documents_example(browser, server):
    browser.open(f"{server.address}views")
    browser.fill("#tracker", "ShapeTracker.from_shape((3, 2))")
    browser.wait("document.querySelector('#index-expression')?.textContent === '((ridx0*2)+ridx1)'")
    for movement, argument in (("permute", "(1, 0)"), ("reshape", "(3, 2)")):
        browser.evaluate(f"document.querySelector('#movement').value = '{movement}'")
        browser.fill("#argument", argument)
        browser.click("#apply")
        browser.wait(
            f"document.querySelector('#moves li:last-child').textContent.includes('{movement}')"
        )
    assert browser.texts("[data-cell]") == ["0", "2", "4", "1", "3", "5"]
    wanted = "(((((ridx0*2)+ridx1)%3)*2)+(((ridx0*2)+ridx1)//3))"
    assert browser.text("#index-expression") == wanted
    assert browser.text("#validity-expression") == "True"
    browser.click("#undo")
    browser.wait("document.querySelectorAll('#moves li').length === 2")


def test_views_are_edited_by_fields_and_masks_are_shown(browser, server):
    browser.open(f"{server.address}views")
    browser.shown('[data-field="mask"]')
    browser.fill("#tracker", "View(shape=(2, 2), strides=(2, 1))")
    browser.wait("document.querySelectorAll('fieldset').length === 1")
    browser.fill('[data-field="mask"]', "((0, 1), (0, 2))")
    browser.press("Enter")
    browser.wait("document.querySelector('#validity-expression')?.textContent === '(ridx0<1)'")
    assert browser.texts("[data-cell]") == ["0", "1"]
    browser.fill("#tracker", "View(shape=(2, 2), strides=(2, 1)")
    assert browser.evaluate("true")
    browser.wait("document.querySelector('#error')?.dataset.offset === '33'")


def test_expressions_and_where_they_are_wrong(browser, server):
    browser.open(f"{server.address}expr")
    browser.shown("[data-cell]")
    assert browser.texts("[data-cell]") == ["0", "2", "4", "1", "3", "5"]
    browser.fill("#index", "ridx0*+2")
    browser.wait("document.querySelector('#error')?.dataset.offset === '6'")
    assert browser.evaluate("document.querySelector('#error mark').textContent") == "+"
    browser.fill("#index", "(ridx0*8 + ridx1)//8")
    browser.wait("document.querySelector('#index-expression')?.textContent === 'ridx0'")
    browser.shown('[data-step="0"]')
    assert browser.evaluate("document.querySelector('#error')") is None
