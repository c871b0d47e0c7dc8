using System.Collections.Generic;
using System.Linq;
using UnityEngine;
using UnityEngine.UIElements;

namespace Tau.Trainer.Editor
{
    /// <summary>The mean reward over decisions as a line, between its lowest and its highest value.</summary>
    internal sealed class Curve : VisualElement
    {
        private const float Height = 80f;

        private static readonly Color[] Colors =
        {
            new Color(0.25f, 0.6f, 1f), new Color(1f, 0.6f, 0.2f),
            new Color(0.4f, 0.8f, 0.4f), new Color(0.9f, 0.4f, 0.7f),
        };

        private IReadOnlyDictionary<string, List<(double Step, double Reward)>> _curves;

        /// <summary>An empty curve.</summary>
        public Curve()
        {
            style.height = Height;
            generateVisualContent += Draw;
        }

        /// <summary>Shows the curves of these behaviors, each in its colour.</summary>
        public void Show(IReadOnlyDictionary<string, List<(double Step, double Reward)>> curves)
        {
            _curves = curves;
            MarkDirtyRepaint();
        }

        private void Draw(MeshGenerationContext context)
        {
            (double Step, double Reward)[] all = _curves?.SelectMany(curve => curve.Value).ToArray();
            if (all == null || all.Length == 0)
            {
                return;
            }
            Rect area = contentRect;
            double last = System.Math.Max(all.Max(point => point.Step), 1);
            double low = all.Min(point => point.Reward);
            double span = System.Math.Max(all.Max(point => point.Reward) - low, 1e-9);
            Painter2D painter = context.painter2D;
            painter.lineWidth = 1.5f;
            int color = 0;
            foreach (List<(double Step, double Reward)> curve in _curves.Values)
            {
                painter.strokeColor = Colors[color++ % Colors.Length];
                painter.BeginPath();
                for (int index = 0; index < curve.Count; index++)
                {
                    var place = new Vector2(
                        area.width * (float)(curve[index].Step / last),
                        area.height * (1f - (float)((curve[index].Reward - low) / span)));
                    if (index == 0)
                    {
                        painter.MoveTo(place);
                    }
                    else
                    {
                        painter.LineTo(place);
                    }
                }
                painter.Stroke();
            }
        }
    }
}
