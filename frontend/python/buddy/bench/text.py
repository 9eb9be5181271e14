"""What `buddy bench accuracy` reads: plain English, some figures, a list, a few lines of code."""

TEXT = """\
The lighthouse at the end of the harbour wall was built in 1871, after three fishing boats had \
been lost in a single winter. It is not a tall tower. From the road it looks like a chimney that \
someone forgot to take down, painted white every second spring by whoever is out of work in \
April. The lamp burned oil at first, then gas, and since 1958 it has been electric. Nobody has \
lived there for fifty years, but the stove is still in the kitchen, and on the wall above it \
hangs a list of the keepers' names with the dates of their service.

Water is heavier than most people expect. A bath of ordinary size holds about 150 litres, which \
is 150 kilograms, as much as two grown men. A swimming pool of 25 metres by 10 metres, 2 metres \
deep, holds 500 cubic metres, or 500 tonnes. This is why dams are thick at the bottom and thin \
at the top: the pressure grows with the depth, and does not depend on how large the lake behind \
the wall is. A narrow pipe filled to the same height pushes just as hard.

To make bread for four people you need 500 grams of flour, 350 millilitres of water, 10 grams of \
salt and a small spoon of yeast. Mix them in a bowl, cover it with a cloth and wait for an hour. \
Fold the dough over itself four times, and wait again. Heat the oven to 230 degrees, put a pot \
inside so that it becomes hot as well, drop the dough into it and close the lid. After 30 \
minutes take the lid off, and bake the bread for another 15 minutes until its crust is dark.

A function that returns the largest of a list of numbers may be written like this in Python:

def largest(values):
    result = values[0]
    for value in values[1:]:
        if value > result:
            result = value
    return result

It looks at each number once. If the list is empty there is no first element, and the call fails \
with an error; a careful author would say so in the documentation.
"""
