"""Device functions shared by every window attention kernel: where tokens lie, and what is added to their logits.

Nothing here moves data. A window of the padded, rolled frame is only a set of row numbers of the (B*H*W, ·) image
tensor; partition, roll, pad, reverse and crop are these few integer operations. `docs/kernels.md` has the picture.

Names used throughout the kernels:

* *slot*: number of a token inside its window, row-major, 0 <= slot < WINDOW_H * WINDOW_W. Tiles are longer than a
  window where the window is no power of two; the surplus slots are *dead*.
* *token*: row number of the (B*H*W, ·) image tensor, 64 bits wide.
* *inside*: the slot is alive and its token is in the image; a live slot outside the image is *padding*.
* *border*: three bits per window: it is in the last column (bit 0) or row (bit 1) of windows, where the roll brought
  both ends of the image together, or it may hold padding (bit 2: the last two rows and columns).
* *side*: two bits per slot, the side of that seam it is on. Two slots attend freely if the sides agree in the bits that
  the window's border has: these are the regions of the shift mask, without a number per region.

Logits are kept in units of log 2 (multiplied by log2(e)), so that the softmax is a bare `exp2`.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
SHIFT_MASK_LOG2 = tl.constexpr(-100.0 * 1.4426950408889634)  # the additive -100 of the shift mask, in units of log 2
SMALLEST_NORM = tl.constexpr(1e-12)
LARGEST_INVERSE_NORM = tl.constexpr(1e12)
SEAM = tl.constexpr(3)  # bits of a window's border
MAY_PAD = tl.constexpr(4)


@triton.jit
def locate_window(window, height, width, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr):
    """Image of a window, and the window's corner in the padded, rolled frame.

    Windows are numbered image by image, row by row: 0 <= window < B * windows per image. Height and width are those
    of the image, without padding.

    Returns:
        image: Number of the image, 64 bits wide.
        top: Row of the window's corner in the padded, rolled frame.
        left: Column of the window's corner there.
        border: See the module's names; zero for most windows.
    """
    down = tl.cdiv(height, WINDOW_H)
    across = tl.cdiv(width, WINDOW_W)
    image = window // (down * across)
    row = window % (down * across) // across
    column = window % across
    seam = (row == down - 1).to(tl.int32) * 2 + (column == across - 1).to(tl.int32)
    # Padding is less than a window high and wide; the roll moves it up to one window towards the corner.
    may_pad = ((row >= down - 2) | (column >= across - 2)).to(tl.int32) * MAY_PAD
    return image.to(tl.int64), row * WINDOW_H, column * WINDOW_W, seam + may_pad


@triton.jit
def padded_window_number(image, top, left, height, width, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr):
    """Number of a window among those that may hold padding: the last two rows of windows, then the last two columns.

    Each of them writes its share of the gradient of `pad_kv` to its own row of a buffer.
    """
    down = tl.cdiv(height, WINDOW_H)
    across = tl.cdiv(width, WINDOW_W)
    inner_down = tl.maximum(down - 2, 0)
    inner_across = tl.maximum(across - 2, 0)
    row = top // WINDOW_H
    column = left // WINDOW_W
    in_rows = (row - inner_down) * across + column
    in_columns = (down - inner_down) * across + row * (across - inner_across) + column - inner_across
    return image * (down * across - inner_down * inner_across) + tl.where(row >= inner_down, in_rows, in_columns)


@triton.jit
def locate_slots(
    slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr
):
    """Where the slots of one window lie in the image.

    Returns:
        token: (slots,) int64, row number of the (B*H*W, ·) image tensor; valid where `inside`.
        inside: (slots,) bool.
        padding: (slots,) bool.
    """
    padded_height = tl.cdiv(height, WINDOW_H) * WINDOW_H
    padded_width = tl.cdiv(width, WINDOW_W) * WINDOW_W
    # Rolling back is one compare and subtract: 0 <= shift < window <= padded size.
    y = top + slot // WINDOW_W + shift_y
    y = tl.where(y >= padded_height, y - padded_height, y)
    x = left + slot % WINDOW_W + shift_x
    x = tl.where(x >= padded_width, x - padded_width, x)
    live = slot < WINDOW_H * WINDOW_W
    inside = live & (y < height) & (x < width)
    token = (image * height + y) * width + x
    return token, inside, live & (inside == 0)


@triton.jit
def load_tokens(base_ptr, token, inside, row_stride, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr):
    """(slots, PADDED_DIM) tile of one head; zero outside the image and beyond HEAD_DIM.

    `base_ptr` is the (B*H*W, row_stride) image tensor, advanced to the first channel wanted.
    """
    channel = tl.arange(0, PADDED_DIM)
    offset = token[:, None] * row_stride + channel[None, :]
    return tl.load(base_ptr + offset, mask=inside[:, None] & (channel < HEAD_DIM)[None, :], other=0.0)


@triton.jit
def store_tokens(base_ptr, tile, token, inside, row_stride, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr):
    """Write a (slots, PADDED_DIM) tile back to where `load_tokens` reads it: reverse, roll back and crop in one."""
    channel = tl.arange(0, PADDED_DIM)
    offset = token[:, None] * row_stride + channel[None, :]
    tile = tile.to(base_ptr.dtype.element_ty)
    tl.store(base_ptr + offset, tile, mask=inside[:, None] & (channel < HEAD_DIM)[None, :])


@triton.jit
def store_sum(row_ptr, tile, chosen, HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr):
    """Write the sum of the chosen rows of a (slots, PADDED_DIM) float32 tile, HEAD_DIM numbers."""
    channel = tl.arange(0, PADDED_DIM)
    tl.store(row_ptr + channel, tl.sum(tl.where(chosen[:, None], tile, 0.0), 0), mask=channel < HEAD_DIM)


@triton.jit
def load_keys(
    qkv_ptr,  # (B, H, W, 3C)
    pad_kv_ptr,  # (2, C), of the type of qkv; unused without HAS_PAD
    which,
    head,
    heads,
    token,  # (slots,) int64
    inside,  # (slots,) bool
    padding,  # (slots,) bool
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    HAS_PAD: tl.constexpr,
):
    """(slots, PADDED_DIM) tile of keys (`which` 0) or values (`which` 1), padding replaced by its row of `pad_kv`."""
    channels = heads * HEAD_DIM
    row_stride = 3 * channels
    channel = tl.arange(0, PADDED_DIM)
    first_channel = which * channels + head * HEAD_DIM
    row_ptr = qkv_ptr + channels + first_channel + token * row_stride
    present = inside
    if HAS_PAD:
        row_ptr = tl.where(padding, pad_kv_ptr + first_channel, row_ptr)
        present = inside | padding
    return tl.load(
        row_ptr[:, None] + channel[None, :], mask=present[:, None] & (channel < HEAD_DIM)[None, :], other=0.0
    )


@triton.jit
def bias_of_pairs(
    table_ptr, query_slot, key_slot, head, heads, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr, HAS_BIAS: tl.constexpr
):
    """What is added to the logits of slot pairs, in units of log 2: the table's value, and -inf for dead keys.

    `table_ptr` is the ((2*WINDOW_H-1)*(2*WINDOW_W-1), heads) table of the relative position bias. The slots of queries
    and keys broadcast against each other.

    Returns:
        float32 tile of the broadcast shape; of the shape of `key_slot` where there is no bias.
    """
    live_key = key_slot < WINDOW_H * WINDOW_W
    if HAS_BIAS:
        rows_apart = query_slot // WINDOW_W - key_slot // WINDOW_W + (WINDOW_H - 1)
        columns_apart = query_slot % WINDOW_W - key_slot % WINDOW_W + (WINDOW_W - 1)
        entry = rows_apart * (2 * WINDOW_W - 1) + columns_apart
        live_pair = live_key & (query_slot < WINDOW_H * WINDOW_W)
        bias = tl.load(table_ptr + entry * heads + head, mask=live_pair, other=0.0).to(tl.float32) * LOG2E
        return tl.where(live_key, bias, float("-inf"))
    else:
        return tl.where(live_key, 0.0, float("-inf"))


@triton.jit
def seam_side(slot, top, left, shift_y, shift_x, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr):
    """Side of the seam of each slot, two bits like `border`.

    `top` and `left` are multiples of the window and change nothing. They keep the compiler from computing the sides
    of all slots before the loop over windows and holding them in registers for the few windows that need them.
    """
    below = slot + top * WINDOW_W >= (top + WINDOW_H - shift_y) * WINDOW_W
    right = (slot + left) % WINDOW_W >= WINDOW_W - shift_x
    return below.to(tl.int32) * 2 + right.to(tl.int32)


@triton.jit
def shift_mask(
    logits,
    row_slot,
    column_slot,
    border,
    top,
    left,
    shift_y,
    shift_x,
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
):
    """Add -100 (in units of log 2) between the sides of a seam. Most windows have none and skip it.

    `logits` are (rows, columns), `row_slot` (rows,) and `column_slot` (columns,).
    """
    if border & SEAM:
        row_side = seam_side(row_slot, top, left, shift_y, shift_x, WINDOW_H, WINDOW_W)
        column_side = seam_side(column_slot, top, left, shift_y, shift_x, WINDOW_H, WINDOW_W)
        apart = (row_side[:, None] ^ column_side[None, :]) & border & SEAM
        logits += tl.where(apart != 0, SHIFT_MASK_LOG2, 0.0)
    return logits


@triton.jit
def inverse_norm(tile):
    """(slots,) float32: 1 / max(|row|, 1e-12), and 0 for a row of zeros, which has no direction."""
    tile = tile.to(tl.float32)
    norm = tl.sqrt(tl.sum(tile * tile, 1))
    return tl.where(norm > 0.0, 1.0 / tl.maximum(norm, SMALLEST_NORM), 0.0)


@triton.jit
def scale_rows(tile, factor):
    """The (slots, PADDED_DIM) tile with its rows multiplied in float32 by `factor`, (slots,), in its own dtype."""
    return (tile.to(tl.float32) * factor[:, None]).to(tile.dtype)


@triton.jit
def through_normalisation(grad, unit, inverse):
    """Gradient of a tile from the gradient of its normalised rows, and the rows' inner products with that gradient.

    `grad` is the (slots, PADDED_DIM) float32 gradient of the normalised rows `unit`, `inverse` what `inverse_norm`
    gave.

    Returns:
        (slots, PADDED_DIM) float32 gradient of the tile before normalisation, and (slots,) float32 inner products.
    """
    unit = unit.to(tl.float32)
    along = tl.sum(unit * grad, 1)
    # Where the norm was clamped, the divisor is a constant and nothing is projected out.
    projected = tl.where(inverse < LARGEST_INVERSE_NORM, along, 0.0)
    return (grad - unit * projected[:, None]) * inverse[:, None], along
