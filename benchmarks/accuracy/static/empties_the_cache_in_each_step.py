"""Fine-tunes a diffusion model; memory ran out once, and this line seemed to help."""

import torch
from diffusion import load_unet, noisy_batches


def main():
    unet = load_unet().to("cuda")
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5, fused=True)
    for step, (latents, noise, timestep, text) in enumerate(noisy_batches(device="cuda", batch_size=8)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(unet(latents, timestep, text), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.empty_cache()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
