/* holt-guest, as it was linked, as read-only data. GUEST_IMAGE is its path. */
    .section .rodata, "a"
    .global holt_guest_image
    .type holt_guest_image, %object
    .balign 64
holt_guest_image:
    .incbin GUEST_IMAGE
holt_guest_image_end:
    .size holt_guest_image, holt_guest_image_end - holt_guest_image

    .global holt_guest_image_size
    .type holt_guest_image_size, %object
    .balign 8
holt_guest_image_size:
    .quad holt_guest_image_end - holt_guest_image
    .size holt_guest_image_size, 8

    .section .note.GNU-stack, "", %progbits
