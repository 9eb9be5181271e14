"""Chat templates give the text of transformers' apply_chat_template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# The forms of the families, each with the constructs that its own template uses.
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}"
    "{% set system = messages[0]['content'] %}{% else %}{% set rest = messages %}"
    "{% set system = false %}{% endif %}{% for message in rest %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "{% if loop.index0 == 0 and system != false %}"
    "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{% endif %}"
)
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message goes first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}{{- tools | tojson }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen. You are helpful.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, seen=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.seen and message.role == "user" and message.content is string %}
        {%- set ns.seen = true %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
        {{- 'answer to the last user' if loop.index0 > ns.last else '' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
WHITESPACE = """  {% for m in messages %}
  <{{ m.role }}>
    {%+ if m.content %}
  {{- m.content -}}
    {% endif +%}
  {# a comment #}
  {% set x %}[{{ loop.index }}/{{ loop.length }}]{% endset %}
{{ x }} {{ m.content|length }}
{% endfor %}

end
"""
TEMPLATES = {
    "chatml": CHATML,
    "smollm2": SMOLLM2,
    "llama2": LLAMA2,
    "llama3": LLAMA3,
    "llama31": LLAMA31,
    "qwen": QWEN,
    "whitespace": WHITESPACE,
}
CONTENTS = ["Hi", "", "  padded \n", "a</think>\n\nb", "x ' \" \\n {{ y }} {% z %}", "漢字 👍🏽"]


def conversations() -> list[list[dict[str, str]]]:
    """One to four turns, with and without a system message."""
    result = []
    for turns in range(1, 5):
        for system in (False, True):
            for shift in range(len(CONTENTS)):
                messages = [{"role": "system", "content": CONTENTS[shift]}] if system else []
                for turn in range(turns):
                    content = CONTENTS[(shift + turn + 1) % len(CONTENTS)]
                    role = "assistant" if turn % 2 else "user"
                    messages.append({"role": role, "content": content})
                result.append(messages)
    return result


def make_tokenizer(folder: Path, template: str) -> PreTrainedTokenizerFast:
    """Save a tokenizer with this template; return transformers' view of it."""
    core = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    core.add_special_tokens(["<s>", "</s>"])
    core.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", chat_template=template
    )


def chat(driver, messages: list[list[dict]], *options: str) -> list[str]:
    lines = driver.run("chat", [json.dumps(item).encode() for item in messages], *options)
    return [line if line.startswith("error") else bytes.fromhex(line).decode() for line in lines]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("generation", [True, False])
def test_template_matches(make_driver, tmp_path: Path, name: str, generation: bool) -> None:
    tokenizer = make_tokenizer(tmp_path, TEMPLATES[name])
    messages = conversations()
    expected = [
        tokenizer.apply_chat_template(item, tokenize=False, add_generation_prompt=generation)
        for item in messages
    ]
    options = [] if generation else ["--no-generation"]
    assert chat(make_driver(tmp_path), messages, *options) == expected


def test_smollm2_gguf_has_its_template(make_driver) -> None:
    from test_byte_level_bpe import smollm2_gguf

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()), chat_template=SMOLLM2
    )
    messages = conversations()
    expected = [
        tokenizer.apply_chat_template(item, tokenize=False, add_generation_prompt=True)
        for item in messages
    ]
    assert chat(make_driver(smollm2_gguf()), messages) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% macro f() %}{% endmacro %}", "the statement 'macro' is not supported"),
        ("{{ messages | pprint }}", "the filter 'pprint' with these arguments is not supported"),
        ("{{ cycler('a') }}", "the function 'cycler' is not supported"),
        ("{{ messages[0].content.zfill(3) }}", "the method 'zfill'"),
        ("{{ messages }}", "printing a value of type array is not supported"),
        ("{{ nothing.at.all }}", "'at' of an undefined value"),
        ("{% for m in messages %}", "expected '{%' before 'end of the template'"),
        ("{{ 'a' + 1 }}", "the operator + of string and number"),
        ("{{ ((((", "a tag without end"),
        ("{{ " + "(" * 10000 + " }}", "nested too deeply"),
        ("{{ range(10000000) | length }}", "'range' of more than 100000 numbers"),
    ],
)
def test_unknown_construct_is_named(
    make_driver, tmp_path: Path, template: str, message: str
) -> None:
    make_tokenizer(tmp_path, template)
    (line,) = chat(make_driver(tmp_path), [[{"role": "user", "content": "a"}]])
    assert line.startswith("error: ") and "chat template: " + message in line


def test_rejected_conversation_is_an_error(make_driver, tmp_path: Path) -> None:
    make_tokenizer(tmp_path, LLAMA2)
    (line,) = chat(make_driver(tmp_path), [[{"role": "assistant", "content": "a"}]])
    assert line.endswith("chat template: roles must alternate user/assistant")


def test_no_template_is_an_error(make_driver, tmp_path: Path) -> None:
    make_tokenizer(tmp_path, "")
    (line,) = chat(make_driver(tmp_path), [[{"role": "user", "content": "a"}]])
    assert line.endswith("the model has no chat template")


def test_template_file_wins(make_driver, tmp_path: Path) -> None:
    make_tokenizer(tmp_path, CHATML)
    (tmp_path / "chat_template.jinja").write_text("{{ messages[-1].content|upper }}!\n")
    assert chat(make_driver(tmp_path), [[{"role": "user", "content": "ß a"}]]) == ["SS A!"]
